// Package lsp implements a language server (LSP) for apps: diagnostics while the
// user types, completion, hover, inlay hints, formatting, links, quick fixes, commands, and
// definitions, references, renames and symbols of the names in apps. Its diagnostics are
// the loader's, computed from the unsaved contents of open files:
//
//	err := lsp.New(&lsp.Options{Version: "1.0"}).Serve(ctx, os.Stdin, os.Stdout)
//
// Messages are JSON-RPC with a Content-Length header. One goroutine handles them
// in order; a command runs on its own goroutine. A changed app is validated when no message is waiting,
// or when a request needs it.
package lsp
