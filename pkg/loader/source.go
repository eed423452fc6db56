package loader

import (
	"cmp"
	"context"
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

	"agenthost/pkg/policy"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

const (
	appFile   = "app.yaml"
	agentFile = "root_agent.yaml"
	// dotenvFile holds variables beside those of the environment.
	dotenvFile = ".env"
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

// misnamed are the names that people give to a file in the place of agentFile or
// appFile, and the name that it should have.
func misnamed() [][2]string {
	return [][2]string{
		{"root_agent.yml", agentFile},
		{"agent.yaml", agentFile},
		{"agent.yml", agentFile},
		{"root-agent.yaml", agentFile},
		{"app.yml", appFile},
	}
}

// Misnamed looks for a file that was meant to make a folder, or one in it, an app, and
// returns its path and the name that it should have. They are empty when there is none.
func Misnamed(dir string) (file, name string) {
	folders := []string{dir}
	entries, _ := os.ReadDir(dir) // what cannot be read has no file to rename
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			folders = append(folders, filepath.Join(dir, e.Name()))
		}
	}
	for _, folder := range folders {
		for _, names := range misnamed() {
			file := filepath.Join(folder, names[0])
			if info, err := os.Stat(file); err == nil && info.Mode().IsRegular() {
				return file, names[1]
			}
		}
	}
	return "", ""
}

// source reads one app's files and environment, and remembers what it read:
// the app's revision is the hash of all of it.
type source struct {
	name string // the app's
	dir  string // as it was given
	root *os.Root
	// kept is the revision that is read in the place of the folder, or nil.
	kept *store.Revision
	// beside is the folder above it, once something there was asked for.
	beside *os.Root
	// shown is how the folder is called in messages.
	shown  string
	env    func(string) (string, bool)
	dotenv map[string]string
	// secrets is the folder of secrets; "" is none.
	secrets string
	// policy says which values of the host the app may read.
	policy *policy.Policy
	// standIn, if set, is what variables and secrets are instead of their values.
	standIn func(name string) string
	// open reads files as an editor has them, by their full paths.
	open  func(path string) ([]byte, bool)
	read  map[string][]byte
	asked map[string]string
	// documents are the YAML files that were read, each for itself; roots are
	// what they were put together to, and outside the files that do not stand in
	// the app's folder.
	documents map[string]*spec.Node
	// filled are those of them that were asked for whole.
	filled  map[string]filled
	roots   []*spec.Node
	outside []string
	// unfilled are the scalars that could not be filled in, and toldOf what was
	// told of them.
	unfilled []unfilled
	toldOf   spec.Diagnostics
	recall   *recall
	budget   *loadBudget
}

// filled is a document with its references filled in, or without one the first of
// its problems.
type filled struct {
	node *spec.Node
	ds   spec.Diagnostics
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
	s := newSource(filepath.Base(full), dir, opts)
	s.root, s.open = root, opts.Open
	s.dotenv, err = s.readDotenv()
	if err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// folder is the app's, by its full path.
func (s *source) folder() string {
	full, err := filepath.Abs(s.dir)
	if err != nil {
		return s.dir
	}
	return full
}

// showDir is how messages call a folder.
func showDir(dir string) string { return filepath.ToSlash(filepath.Clean(dir)) }

// newSource is a source without files.
func newSource(name, dir string, opts *Options) *source {
	return &source{
		name: name, dir: dir, shown: showDir(dir), env: opts.Env, secrets: opts.Secrets, policy: opts.Policy,
		budget:    newLoadBudget(context.Background()),
		documents: map[string]*spec.Node{}, filled: map[string]filled{}, read: map[string][]byte{}, asked: map[string]string{},
	}
}

func (s *source) close() {
	for _, root := range []*os.Root{s.root, s.beside} {
		if root != nil {
			root.Close()
		}
	}
}

// dependOn remembers a file elsewhere, there or not: when it changes, so may the
// app.
func (s *source) dependOn(file string) {
	switch {
	case slices.Contains(s.outside, file):
	case len(s.outside) == maxOutside:
		s.budget.exceeded = cmp.Or(s.budget.exceeded, tooManyOutside)
	default:
		s.outside = append(s.outside, file)
	}
}

// at is where a file is read from, and its name there: the app's folder, for a
// file that apps share the one above it, or the revision that is kept.
func (s *source) at(file string) (fs.FS, string, error) {
	if s.kept != nil {
		return fileSet(s.kept.Files), file, nil
	}
	if !leadsOut(file) {
		return plainFS{s.root}, file, nil
	}
	if !isBeside(file) {
		return nil, "", fs.ErrNotExist
	}
	above, err := filepath.Abs(filepath.Join(s.dir, ".."))
	if err != nil {
		return nil, "", err
	}
	s.dependOn(filepath.Join(above, path.Base(file)))
	if s.beside == nil {
		if s.beside, err = os.OpenRoot(above); err != nil {
			return nil, "", err
		}
	}
	return plainFS{s.beside}, path.Base(file), nil
}

// display is the path of a file as messages show it.
func (s *source) display(file string) string { return path.Join(s.shown, file) }

func (s *source) exists(file string) bool {
	if _, ok := s.opened(file); ok {
		return true
	}
	folder, name, err := s.at(file)
	if err != nil {
		return false
	}
	info, err := fs.Stat(folder, name)
	return err == nil && info.Mode().IsRegular()
}

// isOdd says whether something of this name is there that cannot be read as a
// file of the app: a pipe, a folder, or a link that leads out or nowhere.
func (s *source) isOdd(file string) bool {
	folder, name, err := s.at(file)
	plain, ok := folder.(plainFS)
	if err != nil || !ok || s.exists(file) {
		return false
	}
	_, err = plain.root.Lstat(name)
	return err == nil
}

// missing says why a file cannot be had.
func (s *source) missing(file string) string {
	if s.isOdd(file) {
		return s.display(file) + " is no file of the app: a folder, a pipe, a device, or a link that leads out of its folder"
	}
	return "there is no file " + s.display(file)
}

// bytes reads a file of the app.
func (s *source) bytes(file string) ([]byte, error) {
	if s.budget.isSpent() {
		return nil, s.budget.exceeded
	}
	b, err := s.readBytes(file)
	if err == nil {
		err = s.budget.spend(len(b), 0)
	}
	return b, err
}

func (s *source) readBytes(file string) ([]byte, error) {
	folder, name, err := s.at(file)
	if err != nil {
		return nil, err
	}
	if b, ok := s.opened(file); ok {
		s.read[file] = b
		return b, nil
	}
	f, err := folder.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, err
	}
	s.read[file] = b
	return b, nil
}

// opened is a file as an editor has it.
func (s *source) opened(file string) ([]byte, bool) {
	if s.open == nil {
		return nil, false
	}
	return s.open(filepath.Join(s.dir, filepath.FromSlash(file)))
}

// OverlayFile is the name of the file that is laid over app.yaml for the
// environment of that name.
func OverlayFile(env string) string { return "app." + env + ".yaml" }

// appDocument reads app.yaml with its overlay, or the one of them that is there.
// What the overlay takes away is not looked at: it may name variables that only
// other environments have.
func (s *source) appDocument(overlay string) (*spec.Node, spec.Diagnostics) {
	if !s.hasOverlay(overlay) {
		return s.document(appFile)
	}
	patch, ds := s.parse(OverlayFile(overlay))
	if ds.HasErrors() {
		return nil, ds
	}
	var base *spec.Node
	if s.exists(appFile) {
		var more spec.Diagnostics
		base, more = s.parse(appFile)
		if ds = append(ds, more...); ds.HasErrors() {
			return nil, ds
		}
	}
	if patch.Kind != spec.Mapping && !patch.IsNull() {
		return nil, append(ds, patch.Errorf("type", "an overlay is a mapping: what it says is laid over app.yaml"))
	}
	if base == nil || !patch.IsNull() {
		base = spec.Patch(base, patch)
	}
	return base, append(ds, s.fill(base)...)
}

func (s *source) hasOverlay(name string) bool { return name != "" && s.exists(OverlayFile(name)) }

// document reads a YAML file of the app, with its references filled in. A file
// that many agents name is read once, and its warnings are told once.
func (s *source) document(file string) (*spec.Node, spec.Diagnostics) {
	if d, ok := s.filled[file]; ok {
		return d.node, d.ds
	}
	n, ds := s.parse(file)
	if n == nil || ds.HasErrors() {
		s.filled[file] = filled{nil, ds[:1:1]}
		return nil, ds
	}
	s.filled[file] = filled{node: n}
	return n, append(ds, s.fill(n)...)
}

// parse reads a YAML file of the app as it stands there.
func (s *source) parse(file string) (*spec.Node, spec.Diagnostics) {
	b, err := s.bytes(file)
	if err == nil {
		err = s.budget.spend(0, spec.EstimateNodes(b))
	}
	if isLimit(err) {
		return nil, spec.Diagnostics{s.budget.exceeded.at(s.shown)}
	}
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: s.display(file)}, Rule: "file", Message: "cannot read the file: " + plain(err)}}
	}
	got := recalled(s.recall, parsedKey{file, sha256.Sum256(b)}, func() (parsed, bool) {
		n, ds := spec.Parse(s.display(file), b)
		if n != nil && !ds.HasErrors() {
			ds = append(ds, checkKeys(n)...) // before values of the environment are in
		}
		// A reference is filled in where it stands.
		return parsed{n, ds}, n != nil && !hasReferences(n)
	})
	s.documents[file] = got.node
	return got.node, slices.Clip(got.ds)
}

// parsed is a document and its problems.
type parsed struct {
	node *spec.Node
	ds   spec.Diagnostics
}

// hasReferences says whether there may be something to fill in.
func hasReferences(n *spec.Node) bool {
	return strings.Contains(n.Value, "${") || slices.ContainsFunc(n.Items, hasReferences) ||
		slices.ContainsFunc(n.Entries, func(e spec.Entry) bool { return hasReferences(e.Value) })
}

type parsedKey struct {
	file string
	sum  [sha256.Size]byte
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

// revision is the hash of every file and every value that was read.
func (s *source) revision() string {
	if s.kept != nil {
		return s.kept.ID
	}
	h := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(s.read)) {
		fmt.Fprintf(h, "file %q %x\n", file, sha256.Sum256(s.read[file]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.asked)) {
		fmt.Fprintf(h, "%q %x\n", name, sha256.Sum256([]byte(s.asked[name])))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// files are those that were read, but for .env: its values are secrets of this
// machine.
func (s *source) files() map[string][]byte {
	files := maps.Clone(s.read)
	delete(files, dotenvFile)
	return files
}
