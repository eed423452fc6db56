package command

import (
	"errors"
	"math"

	"github.com/spf13/pflag"

	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// limitFlags limit session sizes. Verbs without these flags have no limits, so that an operator can
// work on all stored data.
type limitFlags struct{ state, event, session SizeFlag }

func (f *limitFlags) registerFlags(flags *pflag.FlagSet) {
	*f = limitFlags{4 << 20, 32 << 20, 256 << 20}
	flags.Var(&f.state, "max-state", "size limit for one session's state, one user's user: keys, and one app's app: keys")
	flags.Var(&f.event, "max-event", "size limit for one event")
	flags.Var(&f.session, "max-session", "size limit for all events in one session")
}

// applyTo sets a store's limits; nil means no limits.
func (f *limitFlags) applyTo(o *store.Options) {
	if f == nil {
		f = &limitFlags{math.MaxInt64, math.MaxInt64, math.MaxInt64}
	}
	o.MaxStateBytes, o.MaxEventBytes, o.MaxSessionBytes = int64(f.state), int64(f.event), int64(f.session)
}

// A SizeFlag is a positive number of bytes.
type SizeFlag int64

// Set parses the flag.
func (s *SizeFlag) Set(text string) error {
	n, ok := spec.ParseSize(text)
	if !ok || n <= 0 {
		return errors.New("must be a size above 0, such as 4MiB")
	}
	*s = SizeFlag(n)
	return nil
}

// String formats the size as users write it.
func (s *SizeFlag) String() string { return spec.FormatSize(int64(*s)) }

// Type names the type in the usage text.
func (s *SizeFlag) Type() string { return "size" }
