package loader

import (
	"errors"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
	"agenthost/wing/programs"
	"agenthost/wing/programs/sandbox"
	"agenthost/wing/wasi"
)

// DefaultProgramHelper starts this program again, for [Options.ProgramHelper].
func DefaultProgramHelper() []string {
	return []string{"/proc/self/exe", sandbox.HelperCommand}
}

// ServeProgramHelper serves the command of [DefaultProgramHelper], and exits. It returns at
// once for any other command line. Call it first in main, with os.Args[1:]. A program that
// sets [Options.ProgramHelper] without this call would start itself for each tool call.
func ServeProgramHelper(args []string) { sandbox.ServeHelper(args) }

// acquirePrograms returns what runs the programs of the app. The folders of sessions exist
// as long as an app uses it.
func (r *resolver) acquirePrograms() (tool.ProgramRunner, func() error) {
	host, end, _ := acquireResource(r.loader.resources, hashResourceKey("programs"), func() (*programs.Host, func() error, error) {
		host := programs.New(programs.Options{Helper: r.loader.opts.ProgramHelper, Policy: r.loader.opts.Policy, Logger: r.loader.opts.Logger})
		return host, host.Close, nil
	})
	return host.Runner(r.src.name, r.src.absoluteDir()), end
}

// acquireInterpreter returns what runs code in a module of the host. It runs in tests of apps
// as well, because it reaches nothing outside. Nil means that a problem was reported.
func (r *resolver) acquireInterpreter(module spec.Text) tool.ProgramRunner {
	found, err := r.loader.opts.interpreters.Open(module.Value)
	if err != nil {
		d := module.Errorf(0, "code-executor", "cannot open the interpreter: %s", err)
		if errors.Is(err, wasi.ErrNoFolder) {
			d = d.WithHint("pass the folder that has %s with --interpreters", module.Value)
		}
		r.report(d)
		return nil
	}
	r.held.add(found.Close)
	return found
}
