// Package lsp serves editors over the Language Server Protocol: the problems of
// an app as it is typed, completion, hover and definitions. What it says is what
// the loader says, on the files as the editor has them:
//
//	err := lsp.New(&lsp.Options{Version: "1.0"}).Serve(ctx, os.Stdin, os.Stdout)
//
// Messages are JSON-RPC with a Content-Length header. They are answered in
// order by one goroutine; an app is checked when nothing else waits, or when
// something is asked about it.
package lsp
