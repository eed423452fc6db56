package tool

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A ProgramConfig is the config of a kind whose tools run programs, which the policy
// of the host must allow.
type ProgramConfig interface {
	// Programs returns the programs; none if the tool runs none.
	Programs() []*Program
}

// A SamplingConfig is the config of a kind whose servers may use the model of the calling
// agent, which the policy of the host must allow.
type SamplingConfig interface {
	// Sampling returns where the config allows that, or nil.
	Sampling() *spec.Node
}

// A HostAccountConfig is the config of a kind whose tools use the Google account of the host,
// which its policy must allow.
type HostAccountConfig interface {
	// HostAccount returns where the config requires the account.
	HostAccount() spec.Text
}

// An ArgKind is the kind of an argument of a program when an app is loaded.
type ArgKind int

// The kinds of arguments: with a fixed value; with a value that a call has; one that a
// call may omit; and any number of arguments.
const (
	FixedArg ArgKind = iota
	VariableArg
	OptionalArg
	FurtherArgs
)

// A Program is a program that a tool runs.
type Program struct {
	// Args are the program and its arguments.
	Args []string
	// Kinds are the kinds of the arguments; nil means that all are fixed. A
	// [ProgramRunner] checks the values of each call.
	Kinds []ArgKind
	// Env are the sorted names of the variables that the app sets for it.
	Env []string
	// Unconfined reports that the tool starts the program without a [ProgramRunner], which
	// applies the sandbox of a grant.
	Unconfined bool
	// At is the position of its name in the document.
	At spec.Text
	// Note is added to the hint of a program that is not granted. It may be empty.
	Note string
}

// A ProgramRunner runs programs that the host grants to one app. It is safe for concurrent
// use.
type ProgramRunner interface {
	// RunProgram runs a program to its end. An error means that it did not run, that a
	// limit was exceeded, or that the context has ended.
	RunProgram(ctx context.Context, run *ProgramRun) (*ProgramResult, error)
}

// A PreparingRunner is a [ProgramRunner] that may not be ready when its app is loaded.
type PreparingRunner interface {
	ProgramRunner
	// WaitUntilReady returns an error if the runner will never be ready.
	WaitUntilReady(ctx context.Context) error
}

// A ProgramRun is one run of a program.
type ProgramRun struct {
	// Origin has the session, whose folder the program may use.
	Origin model.Origin
	// Args are the program and its arguments. A program is a name in PATH, an absolute
	// path, or a path in the folder of the app.
	Args []string
	// Env are the variables that the app sets.
	Env map[string]string
	// Stdin is the whole input.
	Stdin []byte
	// InApp runs the program in the folder of the app, else in that of the session.
	InApp bool
	// MaxOutput limits stdout and stderr each, in bytes.
	MaxOutput int
	// Files are written to the folder of the session before, by their paths in it.
	Files map[string][]byte
	// Collect are patterns, as of path.Match, of the files to return from the folder of
	// the session.
	Collect []string
	// Limits narrow those of the grant's sandbox, which they require.
	Limits ProgramLimits
	// Skill, if set, is the skill that the program is a script of: the host grants it by
	// its content instead of the arguments. The program runs in a copy of its folder.
	Skill *SkillContent
}

// ProgramLimits are limits of a run; 0 means that of the grant.
type ProgramLimits struct {
	// Memory and FileSize are in bytes.
	Memory, FileSize int64
	Processes        int
}

// A ProgramResult is the result of a program.
type ProgramResult struct {
	Stdout, Stderr string
	// Dropped are the bytes of output beyond the limit.
	Dropped int64
	// Exit is the exit code; 128 and the number of the signal that ended the program.
	Exit int
	// Files are the collected files, by their paths.
	Files map[string][]byte
}
