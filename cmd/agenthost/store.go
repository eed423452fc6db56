package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/pkg/session"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// defaultSessionDB is where sessions are kept unless something else is said.
const defaultSessionDB = "sqlite:///data/agenthost.db"

// storeFlags say where sessions, artifacts and memories are kept.
type storeFlags struct {
	sessionDB, artifacts, memory string
	lease                        time.Duration // 0 is the store's own
}

func (f *storeFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.sessionDB, "session-db", defaultSessionDB, "where sessions are kept: sqlite:///relative.db, sqlite:////absolute.db, postgres://user@host/database, mysql://user@host/database or memory:")
	flags.StringVar(&f.artifacts, "artifacts", "", "where artifacts are kept: dir:///folder, gs://bucket/prefix, s3://bucket/prefix or memory: (default: beside the database file, or in data/)")
	flags.StringVar(&f.memory, "memory", "", "where memories are kept: a URL as of --session-db (default: in the session database)")
}

func (f *storeFlags) open(ctx context.Context, logger *slog.Logger) (*store.Store, error) {
	st, err := store.Open(ctx, f.sessionDB, &store.Options{Artifacts: f.artifacts, Memory: f.memory, Lease: f.lease, Logger: logger})
	if err != nil {
		return nil, failedf("opening the session database: %w", err)
	}
	return st, nil
}

// verb makes a verb that works on a store, with the flags that all of them have.
// The store closes behind it.
func (f *storeFlags) verb(cmd *cobra.Command, run func(ctx context.Context, st *store.Store, args []string) error) *cobra.Command {
	cmd.PreRunE = fromEnv
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		st, err := f.open(cmd.Context(), nil)
		if err != nil {
			return err
		}
		defer st.Close()
		return run(cmd.Context(), st, args)
	}
	f.add(cmd.Flags())
	return cmd
}

func writeDiagnostics(io stdio, ds spec.Diagnostics) error {
	if err := ds.WriteText(io.err); err != nil {
		return failed(err)
	}
	return nil
}

// parseState reads k=v pairs; a value that is JSON is taken as such, any other
// as text.
func parseState(pairs []string) (map[string]any, error) {
	state := map[string]any{}
	for _, p := range pairs {
		k, v, ok := strings.Cut(p, "=")
		if !ok || k == "" {
			return nil, fmt.Errorf("--state %q: write KEY=VALUE", p)
		}
		state[k] = parseValue(v)
	}
	return state, nil
}

func parseValue(v string) any {
	m, err := session.DecodeMap([]byte(`{"v":` + v + `}`))
	if err != nil {
		return v
	}
	return m["v"]
}

// readState reads a file with a JSON or YAML mapping.
func readState(file string) (map[string]any, error) {
	b, err := os.ReadFile(file)
	if err != nil {
		return nil, failedf("--state-file: %w", err)
	}
	n, ds := spec.Parse(file, b)
	if err := ds.Err(); err != nil {
		return nil, failedf("--state-file: %w", err)
	}
	state, ok := n.Any().(map[string]any)
	if !ok {
		return nil, failedf("--state-file %s holds no mapping", file)
	}
	return state, nil
}

func printJSON(io stdio, v any) error {
	enc := json.NewEncoder(io.out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	return failed(enc.Encode(v))
}
