"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  const find = document.querySelector(".find");
  const search = $("search"), outcome = $("outcome"), cause = $("cause"), expand = $("expand"), shown = $("shown");
  const jobs = [...document.querySelectorAll("details.job")];
  const nodes = [...document.querySelectorAll(".node")];
  find.hidden = false;

  const apply = () => {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const has = (item) => words.every((word) => item.dataset.text.includes(word));
    let count = 0;
    for (const job of jobs) {
      const match = has(job) && (!outcome.value || job.dataset.outcome === outcome.value) &&
        (!cause.value || job.dataset.kinds.split(" ").includes(cause.value));
      job.hidden = !match;
      count += match;
    }
    for (const node of nodes) node.hidden = !has(node);
    const nothing = $("nothing");
    if (nothing) nothing.hidden = count > 0;
    const filtered = words.length || outcome.value || cause.value;
    const seen = nodes.filter((node) => !node.hidden).length;
    shown.textContent = filtered ? `${count} of ${jobs.length} jobs, ${seen} of ${nodes.length} nodes` : "";
  };
  for (const input of [search, outcome, cause]) input.addEventListener("input", apply);

  expand.addEventListener("click", () => {
    const open = expand.getAttribute("aria-pressed") !== "true";
    expand.setAttribute("aria-pressed", String(open));
    for (const job of jobs) job.open = open;
  });

  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      search.focus();
    } else if (event.key === "Escape" && document.activeElement === search) {
      search.value = "";
      apply();
    }
  });

  // A link to a node opens what it stands in and shows it even if a filter hid it.
  const reveal = () => {
    const target = location.hash && $(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    target.hidden = false;
    for (let outer = target.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
    target.scrollIntoView();
  };
  window.addEventListener("hashchange", reveal);
  window.addEventListener("beforeprint", () => jobs.forEach((job) => { job.open = true; }));
  reveal();
})();
