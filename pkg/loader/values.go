package loader

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"agenthost/pkg/spec"
)

// maxSecret is the largest file that is read as a secret.
const maxSecret = 64 << 10

// fill puts in what the references of a document stand for.
func (s *source) fill(root *spec.Node) spec.Diagnostics {
	s.roots = append(s.roots, root)
	ds := spec.Interpolate(root, s.value)
	if len(ds) > 0 {
		s.toldOf = append(s.toldOf, ds...)
		s.noteUnfilled(root, ds)
	}
	return ds
}

// value is what a reference stands for. All of it counts for the revision.
func (s *source) value(kind, name string) (string, error) {
	switch kind {
	case "secret":
		return s.secret(name)
	case "file":
		return s.text(name)
	}
	if v, ok := s.lookup(name); ok {
		return v, nil
	}
	return "", spec.ErrUnset
}

// peek reads a variable of the environment, or of .env where that has none.
func (s *source) peek(name string) (string, bool) { return s.variables()(name) }

// variables is peek for models, which ask for their keys long after the load: it
// keeps nothing else of the source.
func (s *source) variables() func(name string) (string, bool) {
	env, dotenv := s.env, s.dotenv
	return func(name string) (string, bool) {
		if v, ok := env(name); ok {
			return v, true
		}
		v, ok := dotenv[name]
		return v, ok
	}
}

// lookup is peek for values that become part of the app.
func (s *source) lookup(name string) (string, bool) {
	v, ok := s.peek(name)
	if ok {
		s.asked["env "+name] = "=" + v
	} else {
		s.asked["env "+name] = ""
	}
	return v, ok
}

// secret reads a secret: the file of that name in the folder of secrets, or
// else a variable. The line feed that ends a file is no part of it.
func (s *source) secret(name string) (string, error) {
	v, err := s.secretFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		if found, ok := s.peek(name); ok {
			v, err = found, nil
		} else {
			err = spec.ErrUnset
		}
	}
	if err == nil {
		s.asked["secret "+name] = "=" + v
	}
	return v, err
}

// secretFile follows links as Kubernetes makes them: as long as they stay in
// the folder.
func (s *source) secretFile(name string) (string, error) {
	if s.secrets == "" {
		return "", fs.ErrNotExist
	}
	root, err := os.OpenRoot(s.secrets)
	if err != nil {
		return "", fmt.Errorf("cannot read the folder of secrets: %s", plain(err))
	}
	defer root.Close()
	s.dependOn(filepath.Join(s.secrets, name))
	f, err := openPlain(root.OpenFile, name)
	if err != nil {
		return "", secretError(name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	switch {
	case err != nil:
		return "", secretError(name, err)
	case len(b) > maxSecret:
		return "", fmt.Errorf("the secret %s is larger than 64 KiB", name)
	case !utf8.Valid(b):
		return "", fmt.Errorf("the secret %s is no text in UTF-8", name)
	}
	return strings.TrimSuffix(strings.TrimSuffix(string(b), "\n"), "\r"), nil
}

func secretError(name string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return fmt.Errorf("cannot read the secret %s: %s", name, plain(err))
}

// text reads a text of the app, by its path from the app's folder.
func (s *source) text(given string) (string, error) {
	file := path.Clean(given)
	if leadsOut(given) {
		return "", fmt.Errorf("%s leads out of the app's folder", given)
	}
	if !s.exists(file) {
		return "", errors.New(s.missing(file))
	}
	b, err := s.bytes(file)
	switch {
	case err != nil:
		return "", fmt.Errorf("cannot read %s: %s", s.display(file), plain(err))
	case len(b) > maxFile:
		return "", fmt.Errorf("%s is larger than 4 MiB", s.display(file))
	case !utf8.Valid(b):
		return "", fmt.Errorf("%s is no text in UTF-8", s.display(file))
	}
	return string(b), nil
}

// leadsOut says whether a path leaves the folder that it starts in.
func leadsOut(given string) bool {
	file := path.Clean(given)
	return path.IsAbs(given) || strings.Contains(given, "\\") || file == ".." || strings.HasPrefix(file, "../")
}

// readDotenv reads the .env beside the app: NAME=value lines, with comments,
// quotes and a leading export.
func (s *source) readDotenv() (map[string]string, error) {
	b, err := s.bytes(dotenvFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.display(dotenvFile), err)
	}
	vars := map[string]string{}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimPrefix(strings.TrimSpace(line), "export ")
		name, value, ok := strings.Cut(line, "=")
		if !ok || strings.HasPrefix(line, "#") {
			continue
		}
		vars[strings.TrimSpace(name)] = unquote(strings.TrimSpace(value))
	}
	return vars, nil
}

func unquote(v string) string {
	if len(v) >= 2 && (v[0] == '"' || v[0] == '\'') && v[len(v)-1] == v[0] {
		return v[1 : len(v)-1]
	}
	v, _, _ = strings.Cut(v, " #")
	return strings.TrimSpace(v)
}
