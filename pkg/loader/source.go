package loader

import (
	"bytes"
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

	"agenthost/internal/limit"
	"agenthost/internal/policy"
	"agenthost/pkg/spec"
	"agenthost/pkg/store"
)

// source reads one app's files and environment, and records what it read. The app's revision is the
// hash of it all.
type source struct {
	// maxLLMCalls is [Options.MaxLLMCalls].
	maxLLMCalls *int
	name        string // the app's name
	dir         string // as given by the caller
	root        *os.Root
	// storedRevision is read instead of the folder, unless it is nil.
	storedRevision *store.Revision
	// parentRoot is the parent folder, once a file in it was read.
	parentRoot *os.Root
	// displayDir is the folder in messages.
	displayDir string
	env        func(string) (string, bool)
	// dotenv are the variables in the app's .env, with its problems.
	dotenv         map[string]string
	dotenvProblems spec.Diagnostics
	// moreDotenvProblems is how many more there are than dotenvProblems lists.
	moreDotenvProblems int
	// secrets is the secrets folder; "" means none.
	secrets string
	// policy decides which host values the app may read.
	policy *policy.Policy
	// keepsReferences reports that references to variables and secrets stay as they are written.
	keepsReferences bool
	// open reads files that are open in an editor, by their full paths.
	open       func(path string) ([]byte, bool)
	readFiles  map[string][]byte
	usedValues map[string]string
	// documents are the parsed YAML files. roots are the merged documents. outside are the files
	// outside the app folder.
	documents map[string]*spec.Node
	// filled are the documents with expanded references.
	filled       map[string]filledDocument
	roots        []*spec.Node
	outsideFiles []string
	// unfilled are the scalars with references that could not be expanded, and
	// unfilledProblems the reported problems.
	unfilled         []unfilledScalar
	unfilledProblems spec.Diagnostics
	cache            *loadCache
	budget           *loadBudget
}

// filledDocument is a document with expanded references, or the first problem.
type filledDocument struct {
	node *spec.Node
	ds   spec.Diagnostics
}

// unfilledScalar is the range where a scalar has a reference that could not be expanded.
type unfilledScalar struct{ from, to spec.Pos }

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
	if err := s.readDotenv(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// absoluteDir returns the app folder's absolute path.
func (s *source) absoluteDir() string {
	full, err := filepath.Abs(s.dir)
	if err != nil {
		return s.dir
	}
	return full
}

// newSource returns a source that has not read any files.
func newSource(name, dir string, opts *Options) *source {
	return &source{
		name: name, dir: dir, displayDir: formatDir(dir), env: opts.Env, secrets: opts.Secrets, policy: opts.Policy, maxLLMCalls: opts.MaxLLMCalls,
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

// addDependency records a file outside the app folder, existing or not, whose changes may affect
// the app.
func (s *source) addDependency(file string) {
	switch {
	case slices.Contains(s.outsideFiles, file):
	case len(s.outsideFiles) == maxOutsideFiles:
		s.budget.exceeded = cmp.Or(s.budget.exceeded, tooManyOutside)
	default:
		s.outsideFiles = append(s.outsideFiles, file)
	}
}

// locateFile returns a file's file system, and its name in it: the app folder, its parent for a
// shared file, or the stored revision.
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

// displayPath returns a file's path for messages.
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

// isIrregular reports whether the name exists but is not a readable app file: a pipe, a folder, or
// a link that leaves the app folder or is broken.
func (s *source) isIrregular(file string) bool {
	folder, name, err := s.locateFile(file)
	plain, ok := folder.(regularFS)
	if err != nil || !ok || s.fileExists(file) {
		return false
	}
	_, err = plain.root.Lstat(name)
	return err == nil
}

// missingFileMessage returns why a file cannot be read.
func (s *source) missingFileMessage(file string) string {
	if s.isIrregular(file) {
		return s.displayPath(file) + " is not a regular app file: it is a folder, a pipe, a device, or a link that leaves the app folder"
	}
	return "file " + s.displayPath(file) + " not found"
}

// readWithinBudget reads an app file within the load limits.
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

var errEvalFileTooLarge = errors.New("it exceeds the limit of 4 MiB for files that check and the gate read; split it")

func (s *source) readFile(file string) ([]byte, error) {
	return s.readFileUpTo(file, int64(limit.AppFile.Bytes))
}

// readFileUpTo reads a file and records it. A file beyond the limit has one byte more than
// the limit.
func (s *source) readFileUpTo(file string, limit int64) ([]byte, error) {
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
	var b bytes.Buffer
	if info, err := f.Stat(); err == nil {
		b.Grow(int(min(info.Size(), limit)) + bytes.MinRead)
	}
	if _, err := b.ReadFrom(io.LimitReader(f, limit+1)); err != nil {
		return nil, err
	}
	s.readFiles[file] = b.Bytes()
	return b.Bytes(), nil
}

// editorContent returns an open file's content in an editor.
func (s *source) editorContent(file string) ([]byte, bool) {
	if s.open == nil {
		return nil, false
	}
	return s.open(filepath.Join(s.dir, filepath.FromSlash(file)))
}

// computeRevision hashes all files and values that were read.
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

// A loadCache makes a reload cost what has changed. It keeps what an app's last load derived from
// its documents:
//
//	file and content hash       parsed nodes             parseFile
//	mapping, key, new value     composed mapping         applyDefaults, replaceKeyCached
//	class or kind, mapping      decoded agent or tool    decodeAgent, decodeTool
//	tool settings, content      tool document            readToolDocument
//
// The keys are chained: an unchanged file gives the same node as before, and what was made from
// that node is found by its pointer, without comparing contents. A changed file gives a new node,
// so that everything made from it is made again. A graph with dependencies per value would do the
// same, but each dependency would have to be recorded; here the key is the dependency.
//
// Invariants:
//   - A cached value depends on its key and the loader only. Documents with references depend on
//     the environment, and agents that name text files on those: they are made at each load.
//   - A cached node is never changed.
//   - A value's problems are cached with it, so that each load reports them.
//   - Limits are charged for cached documents too: a load has the same result without its cache.
//   - Entries that a load does not use are evicted at the next one (previous, current). A load that
//     fails before it caches anything evicts nothing.
//
// A nil loadCache caches nothing. It is not safe for concurrent use: an app has one load at a time.
type loadCache struct{ previous, current map[any]any }

// startLoad begins another load.
func (r *loadCache) startLoad() {
	if len(r.current) > 0 { // otherwise the last load failed early
		r.previous = r.current
	}
	r.current = map[any]any{}
}

// getOrMake returns a key's cached value, or makes it. Values that are not cacheable are made each
// time.
func getOrMake[K comparable, T any](r *loadCache, key K, make func() (made T, cacheable bool)) T {
	if r == nil {
		made, _ := make()
		return made
	}
	if known, ok := r.current[key]; ok {
		return known.(T)
	}
	if known, ok := r.previous[key]; ok {
		r.current[key] = known
		return known.(T)
	}
	made, cacheable := make()
	if cacheable {
		r.current[key] = made
	}
	return made
}

func (s *source) hasOverlay(name string) bool { return name != "" && s.fileExists(OverlayFile(name)) }

// OverlayFile returns the app.yaml overlay's name for an environment.
func OverlayFile(env string) string { return "app." + env + ".yaml" }

// readAppDocument reads app.yaml with its overlay; both may be missing. Values that the overlay
// replaces are not expanded: they may name variables that only other environments have.
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
		return nil, append(ds, patch.Errorf("type", "an overlay must be a mapping, which is merged into app.yaml"))
	}
	if base == nil || !patch.IsNull() {
		base = spec.Patch(base, patch)
	}
	return base, append(ds, s.fillReferences(base)...)
}

// readDocument reads one of the app's YAML files and expands its references. A file that many
// agents use is read once, and its warnings are reported once.
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

// parseFile parses one of the app's YAML files without expanding references.
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
			// The diagnostics omit the source line, because they are logged and served.
			c := credentialCheck{checked: map[spec.Pos]bool{}}
			c.checkNode(n) // before references are expanded
			ds = append(ds, c.ds...)
		}
		// Documents with references are parsed again, because expansion modifies them.
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

// hasReferences reports whether there may be references to expand.
func hasReferences(n *spec.Node) bool {
	return strings.Contains(n.Value, "${") || slices.ContainsFunc(n.Items, hasReferences) ||
		slices.ContainsFunc(n.Entries, func(e spec.Entry) bool { return hasReferences(e.Value) })
}

type parsedKey struct {
	file string
	sum  [sha256.Size]byte
}

// credentialPattern matches known services' API keys: Google, keys with sk-, GitHub, Slack, Amazon,
// and private keys.
var credentialPattern = regexp.MustCompile(`\bAIza[0-9A-Za-z_-]{35}\b|\bsk-[0-9A-Za-z_-]{24,}|\bgh[pousr]_[0-9A-Za-z]{36}\b|` +
	`\bxox[abprs]-[0-9A-Za-z-]{20,}|\bAKIA[0-9A-Z]{16}\b|-----BEGIN [A-Z ]*PRIVATE KEY-----`)

// minCredentialLength is the shortest length that credentialPattern matches.
const minCredentialLength = 20

// credentialCheck is the state during one pass over a document.
type credentialCheck struct {
	// checked are the positions where scalars were checked; aliases share a position.
	checked map[spec.Pos]bool
	ds      spec.Diagnostics
}

func (c *credentialCheck) checkNode(n *spec.Node) {
	for _, e := range n.Entries {
		c.checkNode(e.Value)
	}
	for _, item := range n.Items {
		c.checkNode(item)
	}
	if n.Kind != spec.Scalar || len(n.Value) < minCredentialLength || c.checked[n.Pos] {
		return
	}
	c.checked[n.Pos] = true
	if at := credentialPattern.FindStringIndex(n.Value); at != nil {
		d := n.Text().Warnf(at[0], "key-in-file", "possible credential in a file").
			WithHint("store it as a secret, and write ${secret:NAME}")
		d.Source = ""
		c.ds = append(c.ds, d)
	}
}

// containsPos reports whether a position is in the scalar. For a multi-line scalar,
// only the start counts: problems in its other lines are reported separately.
func (u unfilledScalar) containsPos(at spec.Pos) bool {
	oneLine := u.from.Line == u.to.Line && at.Line == u.from.Line && u.from.Col <= at.Col && at.Col <= u.to.Col
	return at.File == u.from.File && (oneLine || at == u.from)
}
