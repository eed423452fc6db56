package programs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"agenthost/internal/policy"
	"agenthost/pkg/loader"
	"agenthost/pkg/tool"
	"agenthost/wing/programs/sandbox"
)

// Options configure a [Host].
type Options struct {
	// Helper is the command that starts [sandbox.ServeHelper], with its arguments; empty
	// means that this host runs no programs.
	Helper []string
	// Policy grants the programs.
	Policy *policy.Policy
	// Dir has the sessions' folders; empty is the folder for temporary files.
	Dir string
	// Logger gets how the programs' memory is limited; nil discards it.
	Logger *slog.Logger
}

// DefaultHelper is the command that starts this program again as the helper that runs programs.
func DefaultHelper() []string { return []string{"/proc/self/exe", sandbox.HelperCommand} }

// ServeHelper serves the [DefaultHelper] command, and exits. It returns at once for any other
// command line. Call it first in main, with os.Args[1:]. A program that has the helper without this
// call would start itself for each tool call.
func ServeHelper(args []string) { sandbox.ServeHelper(args) }

// Opener returns the Programs for [loader.Kinds]. Without a helper, such as [DefaultHelper],
// programs are checked and do not run.
func Opener(helper []string) func(loader.ProgramEnv) loader.ProgramHost {
	return func(env loader.ProgramEnv) loader.ProgramHost {
		return New(Options{Helper: helper, Policy: env.Policy, Logger: env.Logger})
	}
}

// A Host runs the programs of all its apps. It is safe for concurrent use.
type Host struct {
	opts    Options
	folders *folders
	// running limits the programs that run at the same time.
	running chan struct{}
	// groups returns the control groups for programs in a sandbox, or nil.
	groups func() *sandbox.Groups
}

// maxRunning limits the programs that run at the same time.
const maxRunning = 32

// New returns a host without session folders.
func New(opts Options) *Host {
	h := &Host{opts: opts, folders: newFolders(opts.Dir), running: make(chan struct{}, maxRunning)}
	h.groups = sync.OnceValue(h.openGroups)
	return h
}

// openGroups opens the control groups when the first program runs in a sandbox. It logs why
// there are none.
func (h *Host) openGroups() *sandbox.Groups {
	logger := cmp.Or(h.opts.Logger, slog.New(slog.DiscardHandler))
	groups, err := sandbox.OpenGroups()
	if err != nil {
		logger.Info("program memory is measured: no control group", "reason", err)
		return nil
	}
	logger.Info("program memory is limited by control groups")
	return groups
}

// Close deletes the session folders.
func (h *Host) Close() error { return h.folders.Close() }

// Runner returns the runner for an app in a folder.
func (h *Host) Runner(app, dir string) tool.ProgramRunner {
	return &runner{host: h, app: app, dir: dir}
}

type runner struct {
	host     *Host
	app, dir string
}

// RunProgram implements [tool.ProgramRunner].
func (r *runner) RunProgram(ctx context.Context, run *tool.ProgramRun) (*tool.ProgramResult, error) {
	limits, err := r.grantRun(run)
	if err != nil {
		return nil, err
	}
	if len(r.host.opts.Helper) == 0 {
		return nil, errors.New("this program cannot run other programs: Programs of loader.Kinds has no helper")
	}
	select {
	case r.host.running <- struct{}{}:
		defer func() { <-r.host.running }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	f, err := r.host.folders.acquireFolder(r.app, run.Origin)
	if err != nil {
		return nil, err
	}
	defer f.releaseFolder()
	return r.runInFolder(ctx, run, limits, f)
}

// grantRun returns the sandbox that the run's grant describes.
func (r *runner) grantRun(run *tool.ProgramRun) (*policy.Sandbox, error) {
	if run.Skill != nil {
		return r.host.opts.Policy.GrantSkill(r.app, run.Skill.Folder, policy.HashSkill(run.Skill.Files))
	}
	return r.host.opts.Policy.GrantProgram(r.app, policy.Program{Args: run.Args, Env: slices.Sorted(maps.Keys(run.Env))})
}

func (r *runner) runInFolder(ctx context.Context, run *tool.ProgramRun, limits *policy.Sandbox, f *folder) (*tool.ProgramResult, error) {
	path, err := r.findProgram(run.Args[0])
	if err != nil {
		return nil, err
	}
	p := &sandbox.Program{Path: path, Args: run.Args, Dir: f.dir, Stdin: run.Stdin, MaxOutput: run.MaxOutput, Env: newEnvironment(f.dir, run.Env)}
	if run.InApp {
		p.Dir = r.dir
	}
	if err := f.writeFiles(run.Files); err != nil {
		return nil, err
	}
	var own []string
	if run.Skill != nil {
		skill, err := r.host.folders.newCopy(f, run.Skill)
		if err != nil {
			return nil, err
		}
		defer func() { _ = removeTree(filepath.Dir(skill)) }()
		p.Dir, own = skill, []string{skill}
	}
	switch {
	case limits != nil:
		p.Limits = r.newLimits(limits, f, own)
		p.Limits.Memory = lowerLimit(p.Limits.Memory, run.Limits.Memory)
		p.Limits.FileSize = lowerLimit(p.Limits.FileSize, run.Limits.FileSize)
		p.Limits.Processes = lowerLimit(p.Limits.Processes, run.Limits.Processes)
	case run.Limits != tool.ProgramLimits{}:
		return nil, fmt.Errorf("the limits of %s require a grant with a sandbox: add sandbox: {} to it", run.Args[0])
	}
	if p.Limits != nil {
		if g := r.host.groups(); g != nil {
			group, remove, err := g.NewGroup(p.Limits)
			if err != nil {
				return nil, err
			}
			defer remove()
			p.Limits.Group = group
		}
	}
	before, err := f.listVersions(run.Collect)
	if err != nil {
		return nil, err
	}
	got, err := sandbox.RunProgram(ctx, r.host.opts.Helper, p)
	if err != nil {
		return nil, err
	}
	if got.MemoryExceeded {
		return nil, fmt.Errorf("%s exceeded the memory limit of %d MiB", filepath.Base(path), p.Limits.Memory>>20)
	}
	files, err := f.collectFiles(run.Collect, before)
	return &tool.ProgramResult{
		Stdout: readableText(got.Stdout), Stderr: readableText(got.Stderr),
		Dropped: got.StdoutDropped + got.StderrDropped, Exit: got.Exit, Files: files,
	}, err
}

// lowerLimit returns the lower limit; a requested limit of 0 is none.
func lowerLimit[T int | int64](granted, requested T) T {
	if requested > 0 {
		return min(granted, requested)
	}
	return granted
}

// findProgram returns a program's absolute path: one in PATH, an absolute path, or a path in the
// app's folder, never in the session's, which programs change.
func (r *runner) findProgram(name string) (string, error) {
	if !strings.ContainsRune(name, '/') {
		path, err := exec.LookPath(name)
		if err != nil {
			return "", fmt.Errorf("program %s not found in PATH", name)
		}
		return filepath.Abs(path)
	}
	if filepath.IsAbs(name) {
		return name, nil
	}
	if !filepath.IsLocal(name) {
		return "", fmt.Errorf("program %s is not in the app's folder", name)
	}
	return filepath.Join(r.dir, name), nil
}

// newEnvironment returns a program's environment: from the host's only what is necessary to find
// programs, and nothing that may be secret.
func newEnvironment(work string, own map[string]string) []string {
	all := map[string]string{
		"PATH": cmp.Or(os.Getenv("PATH"), "/usr/local/bin:/usr/bin:/bin"), "LANG": cmp.Or(os.Getenv("LANG"), "C.UTF-8"),
		"HOME": work, "TMPDIR": work,
	}
	maps.Copy(all, own)
	env := make([]string, 0, len(all))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		env = append(env, name+"="+all[name])
	}
	return env
}

// newLimits returns a sandbox's limits. An app's and a skill's programs may read their own files.
func (r *runner) newLimits(s *policy.Sandbox, f *folder, own []string) *sandbox.Limits {
	l := &sandbox.Limits{Network: s.Network, Memory: s.Memory, Processes: s.Processes, FileSize: s.FileSize, User: f.user, Write: own}
	resolve := func(paths []string) []string {
		var all []string
		for _, path := range paths {
			switch path {
			case policy.AppFolder:
				path = r.dir
			case policy.WorkFolder:
				path = f.dir
			}
			all = append(all, path)
		}
		return all
	}
	l.Read, l.Write = resolve(s.Read), append(l.Write, resolve(s.Write)...)
	if s.Read == nil {
		l.Read = systemFolders()
	}
	return l
}

// systemFolders are what a program needs to run, as far as it exists.
func systemFolders() []string {
	return slices.DeleteFunc([]string{
		"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/nix/store", "/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d",
		"/etc/localtime", "/etc/ssl/certs", "/etc/ca-certificates", "/etc/hosts", "/etc/nsswitch.conf", "/etc/resolv.conf",
	}, func(path string) bool {
		_, err := os.Stat(path)
		return err != nil
	})
}

// readableText converts an output to text without null characters, which databases reject.
func readableText(b []byte) string {
	const replacement = "\uFFFD"
	return strings.ReplaceAll(strings.ToValidUTF8(string(b), replacement), "\x00", replacement)
}
