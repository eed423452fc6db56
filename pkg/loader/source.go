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

// misnamedFiles are the names that people give to a file in the place of agentFile or
// appFile, and the name that it should have.
func misnamedFiles() [][2]string {
	return [][2]string{
		{"root_agent.yml", agentFile},
		{"agent.yaml", agentFile},
		{"agent.yml", agentFile},
		{"root-agent.yaml", agentFile},
		{"app.yml", appFile},
	}
}

// FindMisnamed looks for a file that was meant to make a folder, or one in it, an app, and
// returns its path and the name that it should have. They are empty when there is none.
func FindMisnamed(dir string) (file, name string) {
	folders := []string{dir}
	entries, _ := os.ReadDir(dir) // what cannot be read has no file to rename
	for _, e := range entries {
		if e.IsDir() && !strings.HasPrefix(e.Name(), ".") && !strings.HasPrefix(e.Name(), "_") {
			folders = append(folders, filepath.Join(dir, e.Name()))
		}
	}
	for _, folder := range folders {
		for _, names := range misnamedFiles() {
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
	// storedRevision is the revision that is read in the place of the folder, or nil.
	storedRevision *store.Revision
	// parentRoot is the folder above it, once something there was asked for.
	parentRoot *os.Root
	// displayDir is how the folder is called in messages.
	displayDir string
	env        func(string) (string, bool)
	dotenv     map[string]string
	// secrets is the folder of secrets; "" is none.
	secrets string
	// policy says which values of the host the app may read.
	policy *policy.Policy
	// placeholder, if set, is what variables and secrets are instead of their values.
	placeholder func(name string) string
	// open reads files as an editor has them, by their full paths.
	open       func(path string) ([]byte, bool)
	readFiles  map[string][]byte
	usedValues map[string]string
	// documents are the YAML files that were read, each for itself; roots are
	// what they were put together to, and outside the files that do not stand in
	// the app's folder.
	documents map[string]*spec.Node
	// filled are those of them that were asked for whole.
	filled       map[string]filledDocument
	roots        []*spec.Node
	outsideFiles []string
	// unfilled are the scalars that could not be filled in, and toldOf what was
	// told of them.
	unfilled         []unfilledScalar
	unfilledProblems spec.Diagnostics
	cache            *loadCache
	budget           *loadBudget
}

// filledDocument is a document with its references filled in, or without one the first of
// its problems.
type filledDocument struct {
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

// absoluteDir is the app's, by its full path.
func (s *source) absoluteDir() string {
	full, err := filepath.Abs(s.dir)
	if err != nil {
		return s.dir
	}
	return full
}

// formatDir is how messages call a folder.
func formatDir(dir string) string { return filepath.ToSlash(filepath.Clean(dir)) }

// newSource is a source without files.
func newSource(name, dir string, opts *Options) *source {
	return &source{
		name: name, dir: dir, displayDir: formatDir(dir), env: opts.Env, secrets: opts.Secrets, policy: opts.Policy,
		budget:    newLoadBudget(context.Background()),
		documents: map[string]*spec.Node{}, filled: map[string]filledDocument{}, readFiles: map[string][]byte{}, usedValues: map[string]string{},
	}
}

func (s *source) close() {
	for _, root := range []*os.Root{s.root, s.parentRoot} {
		if root != nil {
			root.Close()
		}
	}
}

// addDependency remembers a file elsewhere, there or not: when it changes, so may the
// app.
func (s *source) addDependency(file string) {
	switch {
	case slices.Contains(s.outsideFiles, file):
	case len(s.outsideFiles) == maxOutsideFiles:
		s.budget.exceeded = cmp.Or(s.budget.exceeded, tooManyOutside)
	default:
		s.outsideFiles = append(s.outsideFiles, file)
	}
}

// locateFile is where a file is read from, and its name there: the app's folder, for a
// file that apps share the one above it, or the revision that is kept.
func (s *source) locateFile(file string) (fs.FS, string, error) {
	if s.storedRevision != nil {
		return fileSet(s.storedRevision.Files), file, nil
	}
	if !escapesFolder(file) {
		return regularFS{s.root}, file, nil
	}
	if !isSharedFile(file) {
		return nil, "", fs.ErrNotExist
	}
	above, err := filepath.Abs(filepath.Join(s.dir, ".."))
	if err != nil {
		return nil, "", err
	}
	s.addDependency(filepath.Join(above, path.Base(file)))
	if s.parentRoot == nil {
		if s.parentRoot, err = os.OpenRoot(above); err != nil {
			return nil, "", err
		}
	}
	return regularFS{s.parentRoot}, path.Base(file), nil
}

// displayPath is the path of a file as messages show it.
func (s *source) displayPath(file string) string { return path.Join(s.displayDir, file) }

func (s *source) fileExists(file string) bool {
	if _, ok := s.editorContent(file); ok {
		return true
	}
	folder, name, err := s.locateFile(file)
	if err != nil {
		return false
	}
	info, err := fs.Stat(folder, name)
	return err == nil && info.Mode().IsRegular()
}

// isIrregular says whether something of this name is there that cannot be read as a
// file of the app: a pipe, a folder, or a link that leads out or nowhere.
func (s *source) isIrregular(file string) bool {
	folder, name, err := s.locateFile(file)
	plain, ok := folder.(regularFS)
	if err != nil || !ok || s.fileExists(file) {
		return false
	}
	_, err = plain.root.Lstat(name)
	return err == nil
}

// missingFileMessage says why a file cannot be had.
func (s *source) missingFileMessage(file string) string {
	if s.isIrregular(file) {
		return s.displayPath(file) + " is no file of the app: a folder, a pipe, a device, or a link that leads out of its folder"
	}
	return "there is no file " + s.displayPath(file)
}

// readWithinBudget reads a file of the app.
func (s *source) readWithinBudget(file string) ([]byte, error) {
	if s.budget.isExceeded() {
		return nil, s.budget.exceeded
	}
	b, err := s.readFile(file)
	if err == nil {
		err = s.budget.consume(len(b), 0)
	}
	return b, err
}

func (s *source) readFile(file string) ([]byte, error) {
	folder, name, err := s.locateFile(file)
	if err != nil {
		return nil, err
	}
	if b, ok := s.editorContent(file); ok {
		s.readFiles[file] = b
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
	s.readFiles[file] = b
	return b, nil
}

// editorContent is a file as an editor has it.
func (s *source) editorContent(file string) ([]byte, bool) {
	if s.open == nil {
		return nil, false
	}
	return s.open(filepath.Join(s.dir, filepath.FromSlash(file)))
}

// OverlayFile is the name of the file that is laid over app.yaml for the
// environment of that name.
func OverlayFile(env string) string { return "app." + env + ".yaml" }

// readAppDocument reads app.yaml with its overlay, or the one of them that is there.
// What the overlay takes away is not looked at: it may name variables that only
// other environments have.
func (s *source) readAppDocument(overlay string) (*spec.Node, spec.Diagnostics) {
	if !s.hasOverlay(overlay) {
		return s.readDocument(appFile)
	}
	patch, ds := s.parseFile(OverlayFile(overlay))
	if ds.HasErrors() {
		return nil, ds
	}
	var base *spec.Node
	if s.fileExists(appFile) {
		var more spec.Diagnostics
		base, more = s.parseFile(appFile)
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
	return base, append(ds, s.fillReferences(base)...)
}

func (s *source) hasOverlay(name string) bool { return name != "" && s.fileExists(OverlayFile(name)) }

// readDocument reads a YAML file of the app, with its references filled in. A file
// that many agents name is read once, and its warnings are told once.
func (s *source) readDocument(file string) (*spec.Node, spec.Diagnostics) {
	if d, ok := s.filled[file]; ok {
		return d.node, d.ds
	}
	n, ds := s.parseFile(file)
	if n == nil || ds.HasErrors() {
		s.filled[file] = filledDocument{nil, ds[:1:1]}
		return nil, ds
	}
	s.filled[file] = filledDocument{node: n}
	return n, append(ds, s.fillReferences(n)...)
}

// parseFile reads a YAML file of the app as it stands there.
func (s *source) parseFile(file string) (*spec.Node, spec.Diagnostics) {
	b, err := s.readWithinBudget(file)
	if err == nil {
		err = s.budget.consume(0, spec.EstimateNodes(b))
	}
	if isLimitError(err) {
		return nil, spec.Diagnostics{s.budget.exceeded.toDiagnostic(s.displayDir)}
	}
	if err != nil {
		return nil, spec.Diagnostics{{Pos: spec.Pos{File: s.displayPath(file)}, Rule: "file", Message: "cannot read the file: " + formatOSError(err)}}
	}
	got := getOrMake(s.cache, parsedKey{file, sha256.Sum256(b)}, func() (parsedDocument, bool) {
		n, ds := spec.Parse(s.displayPath(file), b)
		if n != nil && !ds.HasErrors() {
			ds = append(ds, checkCredentials(n)...) // before values of the environment are in
		}
		// A reference is filled in where it stands.
		return parsedDocument{n, ds}, n != nil && !hasReferences(n)
	})
	s.documents[file] = got.node
	return got.node, slices.Clip(got.ds)
}

// parsedDocument is a document and its problems.
type parsedDocument struct {
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

// formatOSError is an error without the call and the path that os puts in front.
func formatOSError(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "there is no such file"
	}
	return err.Error()
}

// computeRevision is the hash of every file and every value that was read.
func (s *source) computeRevision() string {
	if s.storedRevision != nil {
		return s.storedRevision.ID
	}
	h := sha256.New()
	for _, file := range slices.Sorted(maps.Keys(s.readFiles)) {
		fmt.Fprintf(h, "file %q %x\n", file, sha256.Sum256(s.readFiles[file]))
	}
	for _, name := range slices.Sorted(maps.Keys(s.usedValues)) {
		fmt.Fprintf(h, "%q %x\n", name, sha256.Sum256([]byte(s.usedValues[name])))
	}
	return hex.EncodeToString(h.Sum(nil))[:16]
}

// revisionFiles are those that were read, but for .env: its values are secrets of this
// machine.
func (s *source) revisionFiles() map[string][]byte {
	files := maps.Clone(s.readFiles)
	delete(files, dotenvFile)
	return files
}
