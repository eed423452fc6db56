// Command http sends the same requests to google.golang.org/adk/v2's REST server
// and to agenthost's, each a process of its own, and prints what each answered
// and what that took.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"syscall"
)

// options is what the command line asks for.
type options struct {
	quick, check bool
	only         *regexp.Regexp
	profile      string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// run is the program, or a server process of it; it returns the exit code.
func run(ctx context.Context, args []string, out, progress io.Writer) int {
	if len(args) == 2 && args[0] == serveVerb {
		if err := serve(ctx, args[1], os.Stdin, out); err != nil {
			fmt.Fprintln(progress, "http:", err)
			return 3
		}
		return 0
	}
	o := &options{only: regexp.MustCompile("")}
	f := flag.NewFlagSet("http", flag.ContinueOnError)
	f.SetOutput(progress)
	f.BoolVar(&o.quick, "quick", false, "one short round, fewer streams")
	f.BoolVar(&o.check, "check", false, "exit with 1 when a target is missed")
	f.StringVar(&o.profile, "profile", "", "also write a CPU profile of agenthost's last server process into this `file`")
	f.Func("run", "only what matches this `regexp`, such as 'memory /run, 32'", func(s string) (err error) {
		o.only, err = regexp.Compile(s)
		return err
	})
	if f.Parse(args) != nil {
		return 2
	}
	if f.NArg() > 0 {
		fmt.Fprintf(progress, "http: unexpected argument %q\n", f.Arg(0))
		return 2
	}
	if len(o.works()) == 0 {
		fmt.Fprintf(progress, "http: nothing matches %q\n", o.only)
		return 2
	}
	met, err := compareAll(ctx, o, out, progress)
	switch {
	case err != nil:
		fmt.Fprintln(progress, "http:", err)
		return 3
	case o.check && !met:
		return 1
	default:
		return 0
	}
}

// works are the chosen ones.
func (o *options) works() []*work {
	return slices.DeleteFunc(works(o.quick), func(w *work) bool { return !o.only.MatchString(w.name()) })
}
