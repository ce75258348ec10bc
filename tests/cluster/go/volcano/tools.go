//go:build tools

// Package tools names the commands that scripts/control-plane builds, so that `go mod tidy` keeps what they need.
package tools

import (
	_ "volcano.sh/volcano/cmd/controller-manager"
	_ "volcano.sh/volcano/cmd/scheduler"
)
