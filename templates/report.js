"use strict";
(() => {
  const $ = (id) => document.getElementById(id);
  // Rows after these are folded away: of nodes on a desktop only those that are neither bad nor suspect.
  const phone = matchMedia("(max-width: 44rem)").matches;
  const FOLD = phone ? 3 : 12, FOLD_JOBS = phone ? 5 : 25;
  const find = document.querySelector(".find");
  // The state of these is in the address, so that a link shows what its sender saw.
  const controls = ["search", "pool", "verdict", "outcome", "cause"].map($).filter(Boolean);
  const shown = $("shown"), clear = $("clear"), expand = $("expand"), unfold = $("unfold"), table = $("node-table");
  const unfoldJobs = $("unfold-jobs");
  const tiles = [...document.querySelectorAll(".tiles a[data-state]")];
  const value = (id) => ($(id) ? $(id).value : "");
  const list = (text, separator) => (text ? text.split(separator) : []);

  const jobs = [...document.querySelectorAll("details.job")].map((element) => ({
    element, text: element.dataset.text, pools: list(element.dataset.pools, "\n"),
    outcome: list(element.dataset.outcome, " "), kinds: list(element.dataset.kinds, " "),
    nodes: list(element.dataset.nodes, " "), name: element.querySelector(".name").textContent.toLowerCase(),
    printed: element.classList.contains("printed"), group: element.closest("details.group"),
  }));
  const groups = [...document.querySelectorAll("details.group")].map((element) => ({
    element, count: element.querySelector(".count"), total: element.querySelector(".count").textContent,
    jobs: jobs.filter((job) => job.group === element),
  }));
  const rows = [...document.querySelectorAll("details.group, details.job")].filter((row) => !row.parentElement.closest("details.group"));
  const incidents = [...document.querySelectorAll("details.incident")].map((element) => ({
    element, names: new Set([...element.querySelectorAll(".names li")].map((item) => item.textContent.trim())),
  }));
  const sections = ["incidents", "nodes", "jobs"].map((id) => $(id) && $(id).closest("section")).filter(Boolean);
  const nodes = [...document.querySelectorAll("tbody.node")].map((element, index) => ({
    element, index, id: element.id, text: element.dataset.text, pools: list(element.dataset.pools, "\n"),
    verdict: element.dataset.verdict, name: element.dataset.name, pool: element.dataset.pools,
    level: Number(element.dataset.level), failures: Number(element.dataset.failures),
    printed: element.classList.contains("printed"),
  }));
  const unprinted = { job: $("jobs-unprinted"), node: $("nodes-unprinted") };
  const usual = { job: unprinted.job && unprinted.job.hidden, node: unprinted.node && unprinted.node.hidden };
  let sort = "level", unfolded = false, unfoldedJobs = false, opened = [];

  // --- filters ---------------------------------------------------------------------------------------------------

  // Shows what matches, and has the first of it printed if a filter is set; returns the number.
  const filter = (kind, items, matches, active) => {
    const most = Number(unprinted[kind] ? unprinted[kind].dataset.most : 0);
    let count = 0;
    for (const item of items) {
      const match = matches(item);
      count += match;
      item.element.hidden = !match;
      item.element.classList.toggle("printed", active ? match && count <= most : item.printed);
    }
    if (unprinted[kind]) {
      const left = count - most;
      unprinted[kind].hidden = active ? left <= 0 : usual[kind];
      if (active) unprinted[kind].textContent = `${left} more that match are on the page itself.`;
    }
    return count;
  };

  const apply = () => {
    const words = value("search").toLowerCase().split(/\s+/).filter(Boolean);
    const pool = value("pool"), verdict = value("verdict"), outcome = value("outcome"), cause = value("cause");
    const has = (item) => words.every((word) => item.text.includes(word)) && (!pool || item.pools.includes(pool));
    const any = words.length > 0 || pool !== "";
    const jobsFiltered = any || outcome !== "" || cause !== "", nodesFiltered = any || verdict !== "";
    const jobCount = filter("job", jobs, (job) => has(job) && (!outcome || job.outcome.includes(outcome)) &&
      (!cause || job.kinds.includes(cause)), jobsFiltered);
    // Words that no node has, such as the name of a job, show the nodes of the jobs that have them.
    const named = nodes.some((node) => words.every((word) => node.text.includes(word)));
    const theirs = new Set(words.length && !named ? jobs.filter((job) => !job.element.hidden).flatMap((job) => job.nodes) : []);
    const nodeCount = filter("node", nodes, (node) => (theirs.has(node.id) ? !pool || node.pools.includes(pool) : has(node)) &&
      (!verdict || node.verdict === verdict), nodesFiltered);
    showGroups(jobsFiltered, words.length > 0);
    showAnswer(words);
    if ($("nothing")) $("nothing").hidden = jobCount > 0;
    if ($("no-node")) $("no-node").hidden = nodeCount > 0;
    shown.textContent = jobsFiltered || nodesFiltered
      ? `${jobCount} of ${jobs.length} jobs, ${nodeCount} of ${nodes.length} nodes` : "";
    clear.hidden = !(jobsFiltered || nodesFiltered);
    fold(nodesFiltered);
    foldJobs(jobsFiltered);
    const state = address();
    for (const tile of tiles) {
      const here = tile.dataset.state === state;
      if (here) tile.setAttribute("aria-current", "true"); else tile.removeAttribute("aria-current");
    }
  };

  // What was opened for a search is closed again with it.
  const openFor = (element) => {
    if (element.open) return;
    element.open = true;
    opened.push(element);
  };
  const showGroups = (filtered, searched) => {
    for (const element of opened) element.open = false;
    opened = [];
    for (const group of groups) {
      const count = group.jobs.filter((job) => !job.element.hidden).length;
      group.element.hidden = count === 0;
      group.count.textContent = filtered ? `${count} of ${group.total}` : group.total;
      if (searched && count) openFor(group.element);
    }
  };
  // A search is a question about a job: its card comes first, then its nodes, then their incidents.
  const showAnswer = (words) => {
    const matches = jobs.filter((job) => !job.element.hidden);
    const exact = matches.filter((job) => job.name === words.join(" "));
    const answer = exact.length === 1 ? exact[0] : matches.length === 1 ? matches[0] : null;
    if (words.length && answer) openFor(answer.element);
    find.classList.toggle("searched", words.length > 0);
    const order = words.length ? [...sections].reverse() : sections;
    if (order.some((section, index) => index && !(order[index - 1].compareDocumentPosition(section) & 4)))
      for (const section of [...order].reverse()) find.after(section);
    const visible = new Set(nodes.filter((node) => !node.element.hidden).map((node) => node.name));
    let related = 0;
    for (const incident of incidents) {
      const match = !words.length || [...incident.names].some((name) => visible.has(name));
      incident.element.hidden = !match;
      related += match;
    }
    const section = $("incidents") && $("incidents").closest("section");
    if (section) section.hidden = related === 0;
  };

  const foldJobs = (filtered) => {
    if (!unfoldJobs) return;
    const away = !filtered && !unfoldedJobs && rows.length > FOLD_JOBS;
    rows.forEach((row, index) => row.classList.toggle("folded", away && index >= FOLD_JOBS));
    unfoldJobs.hidden = !away;
    unfoldJobs.textContent = `Show all ${rows.length} rows of jobs`;
  };

  const fold = (filtered) => {
    if (!unfold) return;
    let folded = 0;
    nodes.forEach((node, index) => {
      const away = !filtered && !unfolded && index >= FOLD && (phone || node.level > 1);
      node.element.classList.toggle("folded", away);
      folded += away;
    });
    unfold.hidden = folded === 0;
    unfold.textContent = `Show all ${nodes.length} nodes`;
  };

  // --- the table of nodes ----------------------------------------------------------------------------------------

  const order = new Intl.Collator("en", { numeric: true });
  const sortNodes = (key) => {
    const down = key.startsWith("-"), column = down ? key.slice(1) : key;
    const heads = table ? [...table.querySelectorAll("th[data-sort]")] : [];
    if (!heads.some((head) => head.dataset.sort === column)) return;
    sort = key;
    const compare = (a, b) => (typeof a === "number" ? a - b : order.compare(a, b));
    nodes.sort((a, b) => (down ? -1 : 1) * compare(a[column], b[column]) || a.index - b.index);
    table.append(...nodes.map((node) => node.element));
    for (const head of heads) {
      if (head.dataset.sort === column) head.setAttribute("aria-sort", down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    }
  };
  for (const head of table ? table.querySelectorAll("th[data-sort]") : []) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = head.textContent;
    head.replaceChildren(button);
    button.addEventListener("click", () => {
      const first = (head.dataset.first || "") + head.dataset.sort;
      const other = first.startsWith("-") ? first.slice(1) : `-${first}`;
      sortNodes(sort === first ? other : first);
      apply();
      write();
    });
  }
  if (unfold) unfold.addEventListener("click", () => {
    unfolded = true;
    apply();
    nodes[FOLD].element.querySelector("th").tabIndex = -1;
    nodes[FOLD].element.querySelector("th").focus(); // the button is gone; go on where the new rows begin
  });

  if (unfoldJobs) unfoldJobs.addEventListener("click", () => {
    unfoldedJobs = true;
    apply();
    rows[FOLD_JOBS].querySelector("summary").focus();
  });

  // --- the address -----------------------------------------------------------------------------------------------

  const address = () => {
    const state = new URLSearchParams();
    for (const control of controls) if (control.value) state.set(control.id, control.value);
    if (sort !== "level") state.set("sort", sort);
    return state.toString();
  };
  const write = () => {
    const state = address();
    try {
      history.replaceState(null, "", state ? `#${state}` : location.href.split("#")[0]);
    } catch { /* a viewer that keeps its address: everything else works */ }
  };
  const set = (state) => {
    for (const control of controls) {
      control.value = state.get(control.id) || "";
      if (control.selectedIndex === -1) control.value = ""; // not an option of this page
    }
    sortNodes(state.get("sort") || "level");
    apply();
  };
  // The search stays in view on a desktop, in one or two lines: what is scrolled to is below it.
  const go = (target) => {
    const covered = getComputedStyle(find).position === "sticky" ? find.offsetHeight : 0;
    document.documentElement.style.scrollPaddingTop = `${covered}px`;
    target.scrollIntoView();
    target.focus({ preventScroll: true });
  };
  const read = () => {
    const hash = location.hash.slice(1);
    if (hash.includes("=")) {
      const state = new URLSearchParams(hash);
      set(state);
      const section = $(state.get("verdict") || (state.get("sort") && !state.get("outcome")) ? "nodes" : "jobs");
      if (section) go(section);
      return;
    }
    // A link to a node opens what it is in and shows it even if a filter hid it.
    const target = hash && $(hash);
    if (!target) return;
    target.hidden = false;
    target.classList.remove("folded");
    for (let outer = target.closest("details"); outer; outer = outer.parentElement.closest("details")) outer.open = true;
    go(target);
  };
  for (const tile of tiles) {
    tile.href = `#${tile.dataset.state}`;
    tile.addEventListener("click", () => { if (location.hash === tile.hash) read(); });
  }
  window.addEventListener("hashchange", read);

  // --- controls --------------------------------------------------------------------------------------------------

  const changed = () => { apply(); write(); };
  for (const control of controls) control.addEventListener("input", changed);
  clear.addEventListener("click", () => {
    for (const control of controls) control.value = "";
    changed();
    $("search").focus();
  });
  if (expand) expand.addEventListener("click", () => {
    const open = expand.getAttribute("aria-pressed") !== "true";
    expand.setAttribute("aria-pressed", String(open));
    for (const item of [...groups, ...jobs]) item.element.open = open && !item.element.hidden;
  });
  document.addEventListener("keydown", (event) => {
    const typing = /^(INPUT|SELECT|TEXTAREA)$/.test(document.activeElement.tagName);
    if (event.key === "/" && !typing) {
      event.preventDefault();
      $("search").focus();
    } else if (event.key === "Escape" && document.activeElement === $("search")) {
      $("search").value = "";
      changed();
    }
  });

  find.hidden = false;
  if (expand) expand.hidden = false;
  apply();
  read();
})();
