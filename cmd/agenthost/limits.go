package main

import (
	"errors"
	"math"

	"github.com/spf13/pflag"

	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// limitFlags bound what sessions may hold. Verbs without the flags have no limits:
// an operator works on what is stored.
type limitFlags struct{ state, event, session sizeFlag }

func (f *limitFlags) registerFlags(flags *pflag.FlagSet) {
	*f = limitFlags{4 << 20, 32 << 20, 256 << 20}
	flags.Var(&f.state, "max-state", "limit of the state of one session, of the user: keys of one user and of the app: keys of one app")
	flags.Var(&f.event, "max-event", "limit of one event")
	flags.Var(&f.session, "max-session", "limit of all events of one session")
}

// applyTo gives the limits to a store; nil is none.
func (f *limitFlags) applyTo(o *store.Options) {
	if f == nil {
		f = &limitFlags{math.MaxInt64, math.MaxInt64, math.MaxInt64}
	}
	o.MaxStateBytes, o.MaxEventBytes, o.MaxSessionBytes = int64(f.state), int64(f.event), int64(f.session)
}

// A sizeFlag is a number of bytes above 0.
type sizeFlag int64

// Set reads the flag.
func (s *sizeFlag) Set(text string) error {
	n, ok := spec.ParseSize(text)
	if !ok || n <= 0 {
		return errors.New("must be a size above 0, such as 4MiB")
	}
	*s = sizeFlag(n)
	return nil
}

// String is the size as it is written.
func (s *sizeFlag) String() string { return spec.FormatSize(int64(*s)) }

// Type is for the usage text.
func (s *sizeFlag) Type() string { return "size" }
