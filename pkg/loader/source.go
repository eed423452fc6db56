package loader

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"agenthost/pkg/spec"
)

const (
	appFile   = "app.yaml"
	agentFile = "root_agent.yaml"
	// maxFile is the largest file that is read.
	maxFile = 4 << 20
)

// appName is ADK's rule for the name of an app (adk-python apps/app.py).
var appName = regexp.MustCompile(`^[a-zA-Z][a-zA-Z0-9_-]*$`)

// Discover lists the app folders of a folder: the folder itself when it is an
// app, else its sub-folders that are, sorted by name. Folders whose name
// begins with a dot or an underscore are passed over.
func Discover(dir string) ([]string, error) {
	if isApp(dir) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("looking for apps: %w", err)
	}
	var found []string
	for _, e := range entries {
		sub := filepath.Join(dir, e.Name())
		if !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") && isApp(sub) {
			found = append(found, sub)
		}
	}
	return found, nil
}

func isApp(dir string) bool {
	for _, name := range []string{agentFile, appFile} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil && info.Mode().IsRegular() {
			return true
		}
	}
	return false
}

// source reads one app's files and environment, and remembers what it read:
// the app's revision is the hash of all of it.
type source struct {
	name string // the app's
	dir  string
	root *os.Root
	// shown is how the folder is called in messages.
	shown  string
	env    func(string) (string, bool)
	dotenv map[string]string
	read   map[string][]byte
	// open reads files as an editor has them, by their full paths.
	open func(path string) ([]byte, bool)
	// documents are the YAML files that were read.
	documents map[string]*spec.Node
	asked     map[string]string
}

func openSource(dir string, opts *Options) (*source, error) {
	full, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	s := &source{
		name: filepath.Base(full), dir: dir, root: root, shown: filepath.ToSlash(filepath.Clean(dir)), env: opts.Env, open: opts.Open,
		documents: map[string]*spec.Node{},
		read:      map[string][]byte{}, asked: map[string]string{},
	}
	s.dotenv, err = s.readDotenv()
	if err != nil {
		root.Close()
		return nil, err
	}
	return s, nil
}

func (s *source) close() { s.root.Close() }

// display is the path of a file as messages show it.
func (s *source) display(file string) string { return path.Join(s.shown, file) }

func (s *source) exists(file string) bool {
	info, err := s.root.Stat(file)
	return err == nil && info.Mode().IsRegular()
}

// bytes reads a file of the app.
func (s *source) bytes(file string) ([]byte, error) {
	if s.open != nil {
		if b, ok := s.open(filepath.Join(s.dir, filepath.FromSlash(file))); ok {
			s.read[file] = b
			return b, nil
		}
	}
	f, err := s.root.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, errors.New("not a regular file")
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	s.read[file] = b
	return b, nil
}

// document reads a YAML file of the app, with its ${env:…} filled in.
func (s *source) document(file string) (*spec.Node, spec.Diagnostics) {
	b, err := s.bytes(file)
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: s.display(file)}, Rule: "file", Message: "cannot read the file: " + plain(err)}}
	}
	n, ds := spec.Parse(s.display(file), b)
	s.documents[file] = n
	if n == nil || ds.HasErrors() {
		return nil, ds
	}
	return n, append(ds, spec.Interpolate(n, s.value)...)
}

// plain is an error without the call and the path that os puts in front.
func plain(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	return err.Error()
}

func (s *source) value(kind, name string) (string, bool) {
	if kind != "env" {
		return "", false
	}
	return s.lookup(name)
}

// peek reads a variable of the environment, or of .env where that has none. It
// serves models long after the load, for their keys.
func (s *source) peek(name string) (string, bool) {
	if v, ok := s.env(name); ok {
		return v, true
	}
	v, ok := s.dotenv[name]
	return v, ok
}

// lookup is peek for values that become part of the app.
func (s *source) lookup(name string) (string, bool) {
	v, ok := s.peek(name)
	if ok {
		s.asked[name] = "=" + v
	} else {
		s.asked[name] = ""
	}
	return v, ok
}

// revision is the hash of every file and every value that was read.
func (s *source) revision() string {
	h := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(s.read)) {
		fmt.Fprintf(h, "file %q %x\n", file, sha256.Sum256(s.read[file]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.asked)) {
		fmt.Fprintf(h, "env %q %x\n", name, sha256.Sum256([]byte(s.asked[name])))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// readDotenv reads the .env beside the app: NAME=value lines, with comments,
// quotes and a leading export.
func (s *source) readDotenv() (map[string]string, error) {
	b, err := s.bytes(".env")
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", s.display(".env"), err)
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
