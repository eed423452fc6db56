package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"agenthost/internal/auth"
	"agenthost/internal/command"
	"agenthost/pkg/spec"
	"agenthost/pkg/store/storeurl"
)

// Config file keys that are not flags, or accept more than the flag.
const (
	keyDirs = "dirs"
	keyAuth = "auth"
)

// commandLineOnly lists the flags that a config file cannot set.
func commandLineOnly() []string { return []string{"config", "help"} }

// applyConfigFile sets flags from the config file unless the command line or the
// environment has set them: session_db sets --session-db. It also reads the keys dirs
// and auth.
func (f *serveFlags) applyConfigFile(flags *pflag.FlagSet) error {
	if f.config == "" {
		return nil
	}
	root, ds, err := command.ReadDocument("--config", f.config)
	if err != nil {
		return err
	}
	if ds.HasErrors() {
		return redactedError("--config", f.config, ds)
	}
	ds = spec.Interpolate(root, f.resolveReference)
	// Apply them in any case: log_format decides how the problems are printed.
	if keys := f.applyConfigKeys(flags, root); !ds.HasErrors() {
		ds = keys
	}
	return redactedError("--config", f.config, ds)
}

func (f *serveFlags) applyConfigKeys(flags *pflag.FlagSet, root *spec.Node) (ds spec.Diagnostics) {
	if root.IsNull() {
		return nil
	}
	if root.Kind != spec.Mapping {
		return spec.Diagnostics{root.Errorf("config", "expected a mapping of flag names to values")}
	}
	for _, e := range root.Entries {
		key := e.Key.Value
		flag := flags.Lookup(strings.ReplaceAll(key, "_", "-"))
		switch {
		case key == keyDirs:
			ds = append(ds, spec.Decode(e.Value, &f.dirs)...)
		case key == keyAuth && e.Value.Kind == spec.Mapping:
			if flags.Lookup(keyAuth).Changed {
				continue
			}
			f.authNode = e.Value
		case flag == nil || strings.Contains(key, "-") || slices.Contains(commandLineOnly(), key):
			ds = append(ds, unknownKey(e.Key, flags))
		case flag.Changed || e.Value.IsNull():
		default:
			ds = append(ds, setFromNode(flags, flag, e.Value)...)
		}
	}
	return ds
}

// unknownKey reports a key that names no flag, and suggests the most similar one.
func unknownKey(key *spec.Node, flags *pflag.FlagSet) spec.Diagnostic {
	keys := []string{keyDirs}
	flags.VisitAll(func(f *pflag.Flag) {
		if !slices.Contains(commandLineOnly(), f.Name) {
			keys = append(keys, strings.ReplaceAll(f.Name, "-", "_"))
		}
	})
	d := key.Errorf("config", "unknown flag --%s", strings.ReplaceAll(key.Value, "_", "-"))
	if near := spec.Suggest(key.Value, keys); near != "" {
		return d.WithHint("did you mean %q?", near)
	}
	if hint, ok := strings.CutPrefix(command.FlagHint(flags, key.Value), "write --"); ok {
		name, value, _ := strings.Cut(hint, " ")
		return d.WithHint("write %s: %s", strings.ReplaceAll(name, "-", "_"), value)
	}
	return d
}

// setFromNode sets a flag to a scalar or a list of scalars.
func setFromNode(flags *pflag.FlagSet, flag *pflag.Flag, n *spec.Node) spec.Diagnostics {
	value := n.Value
	if n.Kind == spec.Sequence && flag.Value.Type() == "stringSlice" {
		var items []string
		if ds := spec.Decode(n, &items); ds != nil {
			return ds
		}
		value = strings.Join(items, ",")
	} else if n.Kind != spec.Scalar {
		return spec.Diagnostics{n.Errorf("config", "expected one value of type %s", flag.Value.Type())}
	}
	if err := flags.Set(flag.Name, value); err != nil {
		var explained *command.FlagError
		if errors.As(command.ExplainFlag(strings.ReplaceAll(flag.Name, "-", "_"), err), &explained) {
			return spec.Diagnostics{n.Errorf("config", "%s", explained.Message).WithHint("%s", explained.Hint)}
		}
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) {
			err = invalid.Unwrap()
		}
		return spec.Diagnostics{n.Errorf("config", "%s: %s", flag.Name, err)}
	}
	return nil
}

// loadAuth returns the host's authentication; nil means no authentication.
func (f *serveFlags) loadAuth() (*auth.Auth, error) {
	n := f.authNode
	if n == nil && f.auth == "" {
		return nil, nil
	}
	name := f.config
	if n == nil {
		var ds spec.Diagnostics
		var err error
		if n, ds, err = command.ReadDocument("--auth", f.auth); err != nil {
			return nil, err
		}
		if ds.HasErrors() {
			return nil, redactedError("--auth", f.auth, ds)
		}
		name = f.auth
	}
	if ds := spec.Interpolate(n, f.resolveReference); ds.HasErrors() {
		return nil, redactedError("--auth", name, ds)
	}
	f.hideTokens(n)
	a, ds := auth.Decode(n, nil)
	return a, redactedError("--auth", name, ds)
}

// hideTokens reserves the tokens in an authentication document, so that apps cannot read them.
func (f *serveFlags) hideTokens(n *spec.Node) {
	tokens := n.Get("tokens")
	if tokens == nil {
		return
	}
	for _, item := range tokens.Items {
		var token spec.Secret
		if at := item.Get("token"); at != nil && token.DecodeSpec(at) == nil {
			f.load.Reserved.Values = append(f.load.Reserved.Values, token.Reveal())
		}
	}
}

// resolveReference resolves ${env:X} and ${secret:X} in the host's own documents, and
// reserves the names and secrets, so that apps cannot read them.
func (f *serveFlags) resolveReference(kind, name string) (string, error) {
	value, err := f.readReference(kind, name)
	if err == nil {
		f.load.Reserved.Variables = append(f.load.Reserved.Variables, name)
	}
	if err == nil && kind == "secret" {
		f.load.Reserved.Values = append(f.load.Reserved.Values, value)
	}
	return value, err
}

func (f *serveFlags) readReference(kind, name string) (string, error) {
	switch {
	case kind == "file":
		return "", errors.New("cannot be used here")
	case kind == "secret" && f.load.Secrets != "":
		root, err := os.OpenRoot(f.load.Secrets)
		if err != nil {
			return "", err
		}
		defer root.Close()
		text, err := root.ReadFile(filepath.Clean(name))
		if errors.Is(err, os.ErrNotExist) {
			return "", spec.ErrUnset
		}
		return strings.TrimRight(string(text), "\r\n"), err
	}
	v, ok := os.LookupEnv(name)
	if !ok {
		return "", spec.ErrUnset
	}
	return v, nil
}

// redactedError is problemsError for a file that may contain tokens and passwords: none of its
// lines is printed.
func redactedError(flag, file string, ds spec.Diagnostics) error {
	return command.ProblemsError(flag, file, ds.Redact())
}

// resolveSettings sets flags from the environment and the config file, in this order, and
// returns the folders to serve.
func (f *serveFlags) resolveSettings(cmd *cobra.Command, dirs []string) ([]string, error) {
	f.addrGiven = cmd.Flags().Changed("addr")
	if err := f.applyConfigFile(cmd.Flags()); err != nil {
		return nil, err
	}
	f.addrGiven = cmd.Flags().Changed("addr")
	if cmd.Flags().Changed("lease") && storeurl.HasNoLeases(f.Schemes, f.SessionDB) {
		return nil, fmt.Errorf("--lease has no effect with --session-db %s, which has no leases: omit it, and run one host for an engine", f.SessionDB)
	}
	if len(dirs) == 0 {
		dirs = f.dirs
	}
	if len(dirs) == 0 {
		return nil, errors.New("DIR is required, as an argument or as dirs: in the --config file")
	}
	f.databaseNotice = f.LocateDatabase(dirs...)
	return dirs, nil
}
