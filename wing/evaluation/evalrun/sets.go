package evalrun

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agenthost/internal/limit"
	"agenthost/internal/regular"
	"agenthost/pkg/spec"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalfile"
)

// setSuffixes end the names of eval sets and test files, which have the same content.
func setSuffixes() []string {
	return append([]string{eval.SetSuffix, eval.TestSuffix}, evalfile.YAMLSuffixes()...)
}

// maxEntries limits a folder's entries.
const maxEntries = 100_000

// A SetFile is an eval set with its file.
type SetFile struct {
	*eval.Set
	Path string
	// Config has an eval file's metrics and simulated user; nil if it has neither.
	Config *eval.Config
}

// These errors mean that there is nothing to run.
var (
	ErrNoSets  = errors.New("no eval sets found")
	ErrNoCases = errors.New("no eval cases found")
)

// ListSets lists an app's eval sets and test files in path order. Folders whose names begin
// with a dot are skipped.
func ListSets(dir string) ([]string, error) {
	var files []string
	entries := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entries++; entries > maxEntries {
			return fmt.Errorf("folder %s has more than %d entries", dir, maxEntries)
		}
		hidden := strings.HasPrefix(d.Name(), ".") && path != dir
		switch {
		case hidden && d.IsDir():
			return fs.SkipDir
		case !hidden && !d.IsDir() && SetName(path) != filepath.Base(path):
			files = append(files, path)
		}
		return nil
	})
	return files, err
}

// SetName returns a file name without a set's suffix. Other files keep their name.
func SetName(path string) string {
	name := filepath.Base(path)
	for _, suffix := range setSuffixes() {
		if stem, ok := strings.CutSuffix(name, suffix); ok && stem != "" {
			return stem
		}
	}
	return name
}

// ReadSet reads a set file. A set in an old form, without IDs and times, has the file's name,
// and is the same each time, so that its runs can be resumed.
func ReadSet(path string, names *evalfile.Names) (*SetFile, error) {
	src, err := readLimited(path)
	if err != nil {
		return nil, err
	}
	return DecodeSet(path, src, names)
}

// DecodeSet reads a file's content as [ReadSet] does.
func DecodeSet(path string, src []byte, names *evalfile.Names) (*SetFile, error) {
	if strings.HasSuffix(path, evalfile.Suffix) {
		f, ds := evalfile.Read(filepath.ToSlash(path), src, names)
		if ds.HasErrors() {
			return nil, ds
		}
		return &SetFile{f.Set, path, f.Config}, nil
	}
	set, ds := evalfile.ReadSet(filepath.ToSlash(path), src, eval.ReproducibleOptions(SetName(path)), names)
	if ds.HasErrors() {
		return nil, ds
	}
	return &SetFile{set, path, nil}, nil
}

// readLimited reads a regular file up to package eval's limit; that package reports a larger one.
func readLimited(path string) ([]byte, error) {
	f, err := regular.Open(os.OpenFile, path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, int64(limit.EvalFile.Bytes)+1))
}

// selectSets returns the sets that the selections name by path, file name or ID, each with
// its cases; without selections, all sets in the app.
func selectSets(dir string, selections []*eval.Selection, names *evalfile.Names) ([]*Job, error) {
	files, err := ListSets(dir)
	if err != nil {
		return nil, err
	}
	if len(selections) == 0 {
		for _, file := range files {
			selections = append(selections, &eval.Selection{Set: file})
		}
	}
	if len(selections) == 0 {
		return nil, fmt.Errorf("%w in %s: write one in a file such as %s", ErrNoSets, dir, filepath.Join(dir, "first"+evalfile.Suffix))
	}
	known := &knownSets{files: files, names: names}
	return selectJobs(selections, func(name string) (*SetFile, error) { return known.findSet(dir, name) })
}

// selectJobs returns a job for each selection. It reports the problems in all files.
func selectJobs(selections []*eval.Selection, find func(name string) (*SetFile, error)) ([]*Job, error) {
	var jobs []*Job
	var problems spec.Diagnostics
	for _, s := range selections {
		set, err := find(s.Set)
		if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
			problems = append(problems, ds...)
			continue
		} else if err != nil {
			return nil, err
		}
		job, err := newJob(set, s.Cases)
		if err != nil {
			return nil, err
		}
		if i := slices.IndexFunc(jobs, func(j *Job) bool { return j.Set.ID == set.ID }); i >= 0 {
			return nil, fmt.Errorf("eval set %q is selected more than once, in %s and %s", set.ID, jobs[i].Set.Path, set.Path)
		}
		jobs = append(jobs, job)
	}
	return jobs, problems.Err()
}

// knownSets finds an app's sets. It reads them all only to find one by its ID.
type knownSets struct {
	names *evalfile.Names
	files []string
	sets  []*SetFile
	read  bool
}

func (k *knownSets) findSet(dir, name string) (*SetFile, error) {
	for _, path := range []string{name, filepath.Join(dir, name)} {
		if info, err := os.Stat(path); err == nil && !info.IsDir() {
			return ReadSet(path, k.names)
		}
	}
	for _, file := range k.files {
		if SetName(file) == name {
			return ReadSet(file, k.names)
		}
	}
	if err := k.readAll(); err != nil {
		return nil, err
	}
	return findByName(k.sets, name)
}

// findByName returns the set with an ID, or whose file has the name.
func findByName(sets []*SetFile, name string) (*SetFile, error) {
	var names []string
	for _, s := range sets {
		if s.ID == name || SetName(s.Path) == name {
			return s, nil
		}
		names = append(names, s.ID, SetName(s.Path))
	}
	return nil, &eval.UnknownNameError{Kind: "eval set", Name: name, Known: names}
}

func (k *knownSets) readAll() error {
	if k.read {
		return nil
	}
	k.read = true
	var problems spec.Diagnostics
	for _, file := range k.files {
		set, err := ReadSet(file, k.names)
		if ds := spec.Diagnostics(nil); errors.As(err, &ds) {
			problems = append(problems, ds...)
		} else if err != nil {
			return err
		} else {
			k.sets = append(k.sets, set)
		}
	}
	return problems.Err()
}

// A Job is a set with the cases to run and the metrics that score them.
type Job struct {
	Set      *SetFile
	Cases    []*eval.Case
	Measures []*eval.Measure
	// own has the metrics for cases with their own criteria.
	own map[*eval.Case][]*eval.Measure
	// Simulator configures the simulated user in scenarios; nil for the defaults.
	Simulator *eval.SimulatorConfig
	// Live makes the cases run live; nil as text.
	Live *eval.LiveConfig
	// AllowNotEvaluated lets a case pass by its other metrics if one was not evaluated.
	AllowNotEvaluated bool
	// Warnings are metrics whose result will not be what a person expects.
	Warnings spec.Diagnostics
	// stubs are the stubs by case, for cases that have any.
	stubs map[*eval.Case]*evalfile.Stubs
}

// newJob selects cases in a set by their IDs; no IDs select all.
func newJob(set *SetFile, ids []string) (*Job, error) {
	job := &Job{Set: set, Cases: set.Cases}
	var ds spec.Diagnostics
	if job.stubs, ds = evalfile.StubsOf(set.Set); ds.HasErrors() {
		return nil, ds.Err()
	}
	if len(ids) == 0 {
		return job, nil
	}
	job.Cases = nil
	for _, id := range ids {
		c := set.Case(id)
		if c == nil {
			var names []string
			for _, c := range set.Cases {
				names = append(names, c.ID)
			}
			return nil, &eval.UnknownNameError{Kind: "case", Name: id, Known: names}
		}
		if !slices.Contains(job.Cases, c) {
			job.Cases = append(job.Cases, c)
		}
	}
	return job, nil
}
