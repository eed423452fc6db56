package tool

import (
	"context"

	"agenthost/pkg/model"
	"agenthost/pkg/spec"
)

// A ProgramConfig configures a kind whose tools run programs, which the host's policy must allow.
type ProgramConfig interface {
	// Programs returns the programs; none if the tool runs none.
	Programs() []*Program
}

// A SamplingConfig configures a kind whose servers may use the calling agent's model, which the
// host's policy must allow.
type SamplingConfig interface {
	// Sampling returns where the config allows that, or nil.
	Sampling() *spec.Node
}

// A HostAccountConfig configures a kind whose tools use the host's Google account, which its policy
// must allow.
type HostAccountConfig interface {
	// HostAccount returns where the config requires the account.
	HostAccount() spec.Text
}

// An ArgKind is what is fixed about a program's argument when an app is loaded.
type ArgKind int

// The argument kinds: with a fixed value; with a value that a call has; one that a call may omit;
// and any number of arguments.
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
	// Kinds are the arguments' kinds; nil means that all are fixed. A [ProgramRunner] checks each
	// call's values.
	Kinds []ArgKind
	// Env are the sorted variable names that the app sets for it.
	Env []string
	// Unconfined reports that the tool starts the program without a [ProgramRunner], which would
	// apply the grant's sandbox.
	Unconfined bool
	// At is its name's position in the document.
	At spec.Text
	// Note is added to the hint for a program that is not granted. It may be empty.
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
	// Args are the program and its arguments. A program is a name in PATH, an absolute path, or a
	// path in the app's folder.
	Args []string
	// Env are the variables that the app sets.
	Env map[string]string
	// Stdin is the whole input.
	Stdin []byte
	// InApp runs the program in the app's folder, else in the session's.
	InApp bool
	// MaxOutput limits stdout and stderr each, in bytes.
	MaxOutput int
	// Files are written to the session's folder before, by their paths in it.
	Files map[string][]byte
	// Collect are patterns, as for path.Match, that select the files to return from the session's
	// folder.
	Collect []string
	// Limits narrow the limits of the grant's sandbox, which they require.
	Limits ProgramLimits
	// Skill, if set, is the skill whose script the program is: the host grants it by its content
	// instead of the arguments. The program runs in a copy of its folder.
	Skill *SkillContent
}

// ProgramLimits are a run's limits; 0 means the grant's.
type ProgramLimits struct {
	// Memory and FileSize are in bytes.
	Memory, FileSize int64
	Processes        int
}

// A ProgramResult is what a program returned.
type ProgramResult struct {
	Stdout, Stderr string
	// Dropped counts the output bytes beyond the limit.
	Dropped int64
	// Exit is the exit code; 128 plus the signal's number if a signal ended the program.
	Exit int
	// Files are the collected files, by their paths.
	Files map[string][]byte
}
