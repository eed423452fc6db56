package wasi

import (
	"context"
	"fmt"
	"strings"

	"github.com/tetratelabs/wazero/api"
	"github.com/tetratelabs/wazero/experimental"
	"github.com/tetratelabs/wazero/imports/wasi_snapshot_preview1"
)

// A pathGuard ends an execution that calls a function with a path above the limit. The runtime
// copies a path before the file system gets it, cleans it, and keeps the whole copy as the name
// of the open file: "a/././…" would hold as much memory as the module has, for each open file.
type pathGuard struct {
	// lengths are the parameters that have a path's length.
	lengths []int
}

// listenToPaths returns the listener for a function with paths, else nil.
func listenToPaths(f api.FunctionDefinition) experimental.FunctionListener {
	if f.ModuleName() != wasi_snapshot_preview1.ModuleName || !strings.HasPrefix(f.Name(), "path_") {
		return nil
	}
	var g pathGuard
	for i, name := range f.ParamNames() {
		if strings.HasSuffix(name, "path_len") {
			g.lengths = append(g.lengths, i)
		}
	}
	return g
}

// Before implements [experimental.FunctionListener].
func (g pathGuard) Before(_ context.Context, _ api.Module, _ api.FunctionDefinition, params []uint64, _ experimental.StackIterator) {
	for _, i := range g.lengths {
		if length := uint32(params[i]); length > maxPath {
			panic(fmt.Errorf("a path of %d bytes exceeds the limit of %d bytes", length, maxPath))
		}
	}
}

// After implements [experimental.FunctionListener].
func (pathGuard) After(context.Context, api.Module, api.FunctionDefinition, []uint64) {}

// Abort implements [experimental.FunctionListener].
func (pathGuard) Abort(context.Context, api.Module, api.FunctionDefinition, error) {}
