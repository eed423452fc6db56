package evalrun

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"agenthost/internal/regular"
	"agenthost/wing/evaluation/eval"
)

// A BaselineFinder finds the baselines that a name selects: one result by file or by ID in
// the results folder, or the newest results for an app revision.
type BaselineFinder struct {
	name string
	// files are the candidates, the newest first.
	files []resultFile
}

// A resultFile is a result without its cases.
type resultFile struct {
	path                 string
	set, revision, model string
	created              float64
}

// minPrefix is the shortest revision prefix that selects a revision.
const minPrefix = 6

// NewBaselineFinder resolves a baseline name. It is an error if nothing has it, or if several
// revisions begin with it.
func NewBaselineFinder(folder, name string) (*BaselineFinder, error) {
	paths := []string{name}
	if eval.CheckPathSegment(name) == nil {
		paths = append(paths, filepath.Join(folder, name+eval.ResultSuffix))
	}
	for _, path := range paths {
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			continue
		}
		file, err := readResultHead(path)
		if err != nil {
			return nil, fmt.Errorf("reading baseline %s: %w", path, err)
		}
		return &BaselineFinder{name, []resultFile{*file}}, nil
	}
	return findRevision(folder, name)
}

// findRevision finds a revision's results.
func findRevision(folder, name string) (*BaselineFinder, error) {
	all, err := listResults(folder)
	if err != nil {
		return nil, err
	}
	var ids, revisions []string
	found := &BaselineFinder{name: name}
	for _, file := range all {
		ids = append(ids, strings.TrimSuffix(filepath.Base(file.path), eval.ResultSuffix))
		if file.revision == name || len(name) >= minPrefix && strings.HasPrefix(file.revision, name) {
			found.files = append(found.files, file)
			revisions = append(revisions, file.revision)
		}
	}
	slices.Sort(revisions)
	switch revisions = slices.Compact(revisions); {
	case len(revisions) == 0 && len(all) == 0:
		return nil, fmt.Errorf("baseline %q not found: there are no results in %s", name, folder)
	case len(revisions) == 0:
		return nil, fmt.Errorf("baseline %q is neither a result file nor a revision with results: %w", name, &eval.UnknownNameError{Kind: "result", Name: name, Known: ids})
	case len(revisions) > 1:
		return nil, fmt.Errorf("baseline %q is ambiguous: the revisions are %s", name, strings.Join(revisions, ", "))
	}
	slices.SortStableFunc(found.files, func(a, b resultFile) int {
		if a.created > b.created {
			return -1
		}
		return 1
	})
	return found, nil
}

// listResults lists the results in a folder. Files that are not results are skipped.
func listResults(folder string) ([]resultFile, error) {
	entries, err := os.ReadDir(folder)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if len(entries) > maxEntries {
		return nil, fmt.Errorf("folder %s has more than %d entries", folder, maxEntries)
	}
	var all []resultFile
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), eval.ResultSuffix) {
			continue
		}
		if file, err := readResultHead(filepath.Join(folder, entry.Name())); err == nil {
			all = append(all, *file)
		}
	}
	return all, nil
}

// maxHead limits a result's keys before its cases, in bytes.
const maxHead = 64 << 10

// readResultHead reads a result's keys up to its cases: results contain whole conversations.
// A result ID ends with its time.
func readResultHead(path string) (*resultFile, error) {
	f, err := regular.Open(os.OpenFile, path, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	dec := json.NewDecoder(io.LimitReader(f, maxHead))
	head := &resultFile{path: path}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	fields := map[string]*string{"eval_set_id": &head.set, "app_revision": &head.revision, "model": &head.model}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return nil, err
		}
		if key == "eval_case_results" {
			return head, nil
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, err
		}
		text, _ := value.(string)
		if name, _ := key.(string); fields[name] != nil {
			*fields[name] = text
		} else if name == "eval_set_result_id" {
			head.created, _ = strconv.ParseFloat(text[strings.LastIndex(text, "_")+1:], 64)
		}
	}
	return nil, errors.New("the file is not an eval set result")
}

// FindBaseline reads a job's baseline: a result for its set, if possible one with the model,
// without its conversations. It returns nil if there is none.
func (f *BaselineFinder) FindBaseline(job *Job, model string) (*eval.SetResult, error) {
	var found *resultFile
	for i, file := range f.files {
		if file.set == job.Set.ID && (found == nil || found.model != model && file.model == model) {
			found = &f.files[i]
		}
	}
	if found == nil {
		return nil, nil
	}
	src, err := readLimited(found.path)
	if err != nil {
		return nil, err
	}
	result, err := eval.ReadResult(filepath.ToSlash(found.path), src)
	if err != nil {
		return nil, err
	}
	for _, c := range result.Cases {
		c.DropTexts()
	}
	return result, nil
}

// CheckJobs returns an error if no job has a baseline, and else the IDs of the sets that have
// none.
func (f *BaselineFinder) CheckJobs(jobs []*Job) (without []string, err error) {
	for _, job := range jobs {
		if !slices.ContainsFunc(f.files, func(file resultFile) bool { return file.set == job.Set.ID }) {
			without = append(without, job.Set.ID)
		}
	}
	if len(without) == len(jobs) {
		var sets []string
		for _, file := range f.files {
			sets = append(sets, file.set)
		}
		slices.Sort(sets)
		return nil, fmt.Errorf("baseline %s has results of eval set %s, the run has eval set %s", f.name, strings.Join(slices.Compact(sets), ", "), strings.Join(without, ", "))
	}
	return without, nil
}
