package loader

import (
	"cmp"
	"context"
	"crypto/sha256"
	"io/fs"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agenthost/pkg/spec"
	"agenthost/pkg/tool"
)

// A NameIndex finds all names in an app's folder, for editors: where its documents, instruction
// files, tests and eval sets declare, write and use them.
//
// Each file is read by itself: parsed, decoded with the config structs of its agents and tools, and
// asked for its state use, as a load does ([nameCollector]). It states the files that it names, which
// are read next. [NameIndex.Refresh] then puts the files together: only now is it known whether the
// name of a tool is that of a declared tool, an agent or a built-in tool.
//
// A load also finds names, but of the whole app: one keystroke would cost the whole app, and an
// error anywhere could hide them. Here a change costs its file.
//
// Invariants:
//   - A file's names depend on its content and its form only, so that they are kept until it changes.
//   - A name that cannot be replaced where it is written is not Exact; nothing is left out silently.
//   - A file that cannot be read completely keeps its last names, and is listed in Problems.
//
// A NameIndex is not safe for concurrent use.
type NameIndex struct {
	loader *Loader
	dir    string
	states folderHasher
	files  map[namedFile]*indexedFile
	// parsed counts the files that were read into the index.
	parsed int
}

// NewNameIndex returns an index for an app's folder, which is read by the first Refresh.
func (l *Loader) NewNameIndex(dir string) *NameIndex {
	return &NameIndex{loader: l, dir: dir, files: map[namedFile]*indexedFile{}}
}

// FilesParsed returns how many files the index has parsed since it was created.
func (x *NameIndex) FilesParsed() int { return x.parsed }

// A NameRole is what a place does with a name.
type NameRole int

// The name roles.
const (
	// NameUsed reads a state key, or refers to a declaration.
	NameUsed NameRole = iota
	// NameDeclared declares the name; a state schema declares keys.
	NameDeclared
	// NameWritten writes a state key, or gives it a default.
	NameWritten
	// NameSupplied is a state key's value in a test or an eval set.
	NameSupplied
	// NameMentioned is text that equals a name, such as a tool's in backticks in an instruction.
	NameMentioned
)

// A NameUse is a place with a name.
type NameUse struct {
	Kind NameKind
	Name string
	Role NameRole
	// File is the path in the app folder; a file next to it begins with ../.
	File string
	// Range has the name's bytes in the file.
	Range spec.Range
	// Exact reports that the file has the name as it is in the range. Otherwise the range is where
	// the string with the name starts: it is written with escapes, or a variable has it.
	Exact bool
	// Whole has the bytes that a declaration consists of, and is empty for other uses.
	Whole spec.Range
	// Detail is the declaration's description, or the field that writes a key.
	Detail string
}

// A NameTable lists an app's names. It does not change.
type NameTable struct {
	// Uses are sorted by file and range.
	Uses []NameUse
	// Files are the files that were read.
	Files []string
	// Problems has an error for each file whose names may be incomplete.
	Problems spec.Diagnostics

	texts    map[string][]byte
	byName   map[nameKey][]int
	byFile   map[string][]int
	builtins map[string]bool
}

type nameKey struct {
	kind NameKind
	name string
}

// Text returns a file's content, as it was read.
func (t *NameTable) Text(file string) []byte { return t.texts[file] }

// InFile returns a file's uses.
func (t *NameTable) InFile(file string) []NameUse { return t.listUses(t.byFile[file]) }

// Find returns all places with a name.
func (t *NameTable) Find(kind NameKind, name string) []NameUse {
	return t.listUses(t.byName[nameKey{kind, name}])
}

func (t *NameTable) listUses(at []int) []NameUse {
	found := make([]NameUse, len(at))
	for i, n := range at {
		found[i] = t.Uses[n]
	}
	return found
}

// At returns the use at a byte offset in a file. An end counts as well, so that a cursor after a name
// finds it.
func (t *NameTable) At(file string, offset int) (NameUse, bool) {
	var found NameUse
	ok := false
	for _, n := range t.byFile[file] {
		u := t.Uses[n]
		if u.Exact && u.Kind != CaseNames && u.Range.Start <= offset && offset <= u.Range.End && (!ok || u.Range.Start > found.Range.Start || found.Role == NameMentioned) {
			found, ok = u, true
		}
	}
	return found, ok
}

// IsBuiltin reports whether a program, not the app, has the tool with the name.
func (t *NameTable) IsBuiltin(name string) bool { return t.builtins[name] }

// indexedFile is a file's entry in the index.
type indexedFile struct {
	sum   [32]byte
	text  []byte
	names collectedNames
	// problem is why the names may be incomplete; they are then the last complete ones.
	problem *spec.Diagnostic
}

// Refresh reads the files that have changed, and returns the app's names. The error is that of
// reading the folder.
func (x *NameIndex) Refresh(ctx context.Context) (*NameTable, error) {
	src, err := openSource(x.dir, &x.loader.opts)
	if err != nil {
		return nil, err
	}
	defer src.close()
	src.budget = newLoadBudget(ctx)
	t := &NameTable{texts: map[string][]byte{}, byName: map[nameKey][]int{}, byFile: map[string][]int{}, builtins: map[string]bool{}}
	kept := map[namedFile]*indexedFile{}
	next, skills, err := x.listRoots(ctx, src)
	if err != nil {
		return nil, err
	}
	states, left := map[string]fileState{}, int64(maxFolderBytes)
	for len(next) > 0 {
		file := next[0]
		next = next[1:]
		if kept[file] != nil {
			continue
		}
		f := x.readNames(src, file, states)
		if f == nil {
			continue
		}
		if left -= int64(len(f.text)); left < 0 || len(kept) == maxFolderEntries {
			t.Problems = append(t.Problems, folderTooLarge.toDiagnostic(src.displayDir))
			break
		}
		kept[file] = f
		next = append(next, f.names.files...)
		for _, folder := range f.names.skillFolders {
			for _, skill := range skills {
				if strings.HasPrefix(skill, path.Clean(folder)+"/") {
					next = append(next, namedFile{skill, skillForm})
				}
			}
		}
	}
	x.files, x.states.states = kept, states
	if src.budget.exceeded != nil {
		t.Problems = append(t.Problems, src.budget.exceeded.toDiagnostic(src.displayDir))
	}
	for _, kind := range [][]string{x.loader.kinds.Builtins.Names(), x.loader.kinds.AgentTools.Names(), slices.Collect(maps.Keys(x.loader.opts.Functions.Tools))} {
		for _, name := range kind {
			t.builtins[name] = true
		}
	}
	t.mergeFiles(kept)
	return t, nil
}

// listRoots returns the files that no other file names: app.yaml with all overlays, the default root
// agent, tests and eval sets. skills are the files that make folders skills, which tools name.
func (x *NameIndex) listRoots(ctx context.Context, src *source) (roots []namedFile, skills []string, err error) {
	roots = []namedFile{{appFile, appForm}, {agentFile, rootForm}}
	overlays, err := filepath.Glob(filepath.Join(escapeGlob(x.dir), "app.*.yaml"))
	if err != nil {
		return nil, nil, err
	}
	for _, overlay := range overlays {
		roots = append(roots, namedFile{filepath.Base(overlay), appForm})
	}
	var suffixes []string
	for _, kind := range x.loader.kinds.Files {
		suffixes = append(suffixes, kind.Suffixes...)
	}
	var skillFiles []string
	for _, kind := range x.loader.kinds.Tools {
		if skills, ok := kind.NewConfig().(tool.SkillConfig); ok {
			skillFiles = append(skillFiles, skills.SkillFileNames()...)
		}
	}
	in := &Inspection{newResolver(x.loader, src)}
	for _, file := range in.FindFiles(ctx, "files", append(suffixes, skillFiles...)...) {
		if slices.Contains(skillFiles, path.Base(file)) {
			skills = append(skills, file)
			continue
		}
		for i, kind := range x.loader.kinds.Files {
			if kind.Names != nil && slices.ContainsFunc(kind.Suffixes, func(suffix string) bool { return strings.HasSuffix(file, suffix) }) {
				roots = append(roots, namedFile{file, firstKindForm + fileForm(i)})
				break
			}
		}
	}
	return roots, skills, nil
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`[`, `\[`, `*`, `\*`, `?`, `\?`).Replace(dir)
}

// readNames returns a file's names: the known ones if it has not changed. It returns nil if there is
// no such file.
func (x *NameIndex) readNames(src *source, file namedFile, states map[string]fileState) *indexedFile {
	known := x.files[file]
	sum, text, ok := x.readIfChanged(src, file.path, states, known)
	switch {
	case !ok:
		return nil
	case known != nil && text == nil:
		return known
	}
	x.parsed++
	f := &indexedFile{sum: sum, text: text, names: x.loader.collectNames(file, text)}
	if f.problem = f.names.problem; f.problem != nil && known != nil && len(known.names.uses) > 0 {
		// The last complete names are found again where the text still has them.
		f.names = known.names.movedTo(known.text, text)
	}
	return f
}

// readIfChanged returns a file's hash, and its content if that differs from the known one.
func (x *NameIndex) readIfChanged(src *source, file string, states map[string]fileState, known *indexedFile) (sum [32]byte, text []byte, ok bool) {
	if open, isOpen := src.editorContent(file); isOpen {
		sum = sha256.Sum256(open)
		if known != nil && known.sum == sum {
			return sum, nil, true
		}
		return sum, append([]byte{}, open...), true
	}
	folder, name, err := src.locateFile(file)
	if err != nil {
		return sum, nil, false
	}
	state, err := statFile(folder, name)
	if err != nil {
		return sum, nil, false
	}
	if old, seen := x.states.states[file]; known != nil && seen && old.isSameFile(state) && old.isSettled() && old.sum == known.sum {
		states[file] = old
		return old.sum, nil, true
	}
	text, err = src.readWithinBudget(file)
	if err != nil {
		return sum, nil, false
	}
	state.sum = sha256.Sum256(text)
	states[file] = state
	if known != nil && known.sum == state.sum {
		return state.sum, nil, true
	}
	return state.sum, text, true
}

// statFile returns a file's state without its hash.
func statFile(folder fs.FS, name string) (fileState, error) {
	info, err := fs.Stat(folder, name)
	if err != nil {
		return fileState{}, err
	}
	if !info.Mode().IsRegular() {
		return fileState{}, fs.ErrNotExist
	}
	return fileState{size: info.Size(), modified: info.ModTime(), changed: changeTime(info), id: info, read: time.Now()}, nil
}

// movedTo returns the names of an earlier text in a later one: those before the first and after the
// last difference. The others are no longer exact.
func (f collectedNames) movedTo(before, after []byte) collectedNames {
	start := 0
	for start < min(len(before), len(after)) && before[start] == after[start] {
		start++
	}
	end := 0
	for end < min(len(before), len(after))-start && before[len(before)-1-end] == after[len(after)-1-end] {
		end++
	}
	moved := collectedNames{files: f.files, skillFolders: f.skillFolders, problem: f.problem}
	shift := len(after) - len(before)
	for _, u := range f.uses {
		switch {
		case u.Range.End <= start:
		case u.Range.Start >= len(before)-end:
			u.Range = spec.Range{Start: u.Range.Start + shift, End: u.Range.End + shift}
		default:
			continue
		}
		u.Whole = spec.Range{}
		moved.uses = append(moved.uses, u)
	}
	return moved
}

// mergeFiles lists the files' names. A tool's name may be that of an agent; text is a mention only of
// a name that the app has.
func (t *NameTable) mergeFiles(files map[namedFile]*indexedFile) {
	declared := map[nameKey]bool{}
	seen := map[NameUse]bool{}
	for file, f := range files {
		if t.texts[file.path] == nil {
			t.Files = append(t.Files, file.path)
		}
		t.texts[file.path] = f.text
		if f.problem != nil {
			t.Problems = append(t.Problems, *f.problem)
		}
		for _, u := range f.names.uses {
			if u.Role == NameDeclared || u.Role == NameWritten {
				declared[nameKey{u.Kind, u.Name}] = true
			}
		}
	}
	for _, f := range files {
		for _, u := range f.names.uses {
			key := nameKey{u.Kind, u.Name}
			switch {
			case declared[key] || u.Kind == StateNames:
			case u.Kind == ToolNames && declared[nameKey{AgentNames, u.Name}]:
				u.Kind = AgentNames
			case u.Kind == FunctionNames && t.builtins[u.Name]:
				u.Kind = ToolNames
			case u.Role == NameMentioned || u.Kind == SchemaNames || u.Kind == FunctionNames:
				continue // text, a type, or code that the app does not replace
			}
			if !seen[u] {
				seen[u] = true
				t.Uses = append(t.Uses, u)
			}
		}
	}
	slices.SortFunc(t.Uses, func(a, b NameUse) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Range.Start, b.Range.Start), cmp.Compare(a.Range.End, b.Range.End), cmp.Compare(a.Kind, b.Kind), cmp.Compare(b.Role, a.Role))
	})
	for i, u := range t.Uses {
		key := nameKey{u.Kind, u.Name}
		t.byName[key] = append(t.byName[key], i)
		t.byFile[u.File] = append(t.byFile[u.File], i)
	}
	slices.Sort(t.Files)
	t.Problems.Sort()
}

// A namedFile is a file with the form in which it is read.
type namedFile struct {
	path string
	form fileForm
}

// A fileForm is what a file contains.
type fileForm int

const (
	appForm fileForm = iota
	includeForm
	rootForm
	agentForm
	scriptForm
	// templateForm is text with placeholders, such as an instruction file.
	templateForm
	// skillForm is the file that makes a folder a skill.
	skillForm
	// firstKindForm and the forms after it are the program's file kinds.
	firstKindForm
)

// joinPath returns the path of a file that this file names, relative to its folder, or "" if it is not one
// that an app may have.
func (f namedFile) joinPath(given string) string {
	file := path.Join(path.Dir(f.path), given)
	if path.IsAbs(given) || strings.Contains(given, "\\") || escapesFolder(file) && !isSharedFile(file) {
		return ""
	}
	return file
}
