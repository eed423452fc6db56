package evalrun

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agenthost/internal/limit"
	"agenthost/internal/regular"
	"agenthost/wing/evaluation/eval"
)

// journalSuffix ends a journal's name: the result's name without its suffix.
const journalSuffix = ".evalset_result.partial"

// A Journal is a file with the results from a run that is not complete: a line with the
// header, then a line for each result. A line is written at once, so a killed process loses
// only what was running; an incomplete last line is ignored. It is safe for concurrent use.
type Journal struct {
	dir    string
	header journalHeader
	// order has each case's index in the set.
	order map[string]int

	mu      sync.Mutex
	file    *os.File
	end     int64
	entries []journalEntry
	counts  map[string]int
	// cases counts the results that passed or failed, passed the former.
	cases, passed int64
}

// A Subject is what a run evaluates.
type Subject struct {
	// App is the app's name, Revision its revision.
	App      string `json:"app"`
	Revision string `json:"revision,omitempty"`
	// Model names the model that replaces all models in the app's agents; empty for the app's
	// own models.
	Model string `json:"model,omitempty"`
}

// A journalHeader identifies the run.
type journalHeader struct {
	Subject
	SetID   string  `json:"evalSetId"`
	Created float64 `json:"created"`
	// Key is a hash of the subject, the set, the cases and the metrics: results with another
	// key are not comparable.
	Key string `json:"key"`
}

type journalEntry struct {
	caseID      string
	start, size int64
}

// newResult returns the run's result without cases.
func (h *journalHeader) newResult() *eval.SetResult {
	result := eval.NewSetResult(h.App, h.SetID, h.Created)
	result.Model, result.Revision, result.Cases = h.Model, h.Revision, []*eval.CaseResult{}
	return result
}

// Begin creates a job's journal in a folder, which it creates if necessary.
func (j *Job) Begin(dir string, subject Subject, now time.Time) (*Journal, error) {
	key, err := j.hashRun(subject)
	if err != nil {
		return nil, err
	}
	if err := eval.CheckPathSegment(j.Set.ID); err != nil {
		return nil, fmt.Errorf("the ID of the eval set in %s: %w", j.Set.Path, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("creating the results folder: %w", err)
	}
	micros := now.UnixMicro()
	for {
		if micros%1_000_000 == 0 {
			micros++ // the UI of ADK cannot open a result of a whole second
		}
		journal := j.newJournal(dir, journalHeader{subject, j.Set.ID, float64(micros) / 1e6, key})
		if _, err := os.Lstat(journal.filePath(eval.ResultSuffix)); err == nil {
			micros++
			continue
		}
		f, err := os.OpenFile(journal.filePath(journalSuffix), os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
		if errors.Is(err, fs.ErrExist) {
			micros++
			continue
		}
		if err != nil {
			return nil, fmt.Errorf("creating the result file: %w", err)
		}
		journal.file = f
		if err := lockFile(f); err != nil {
			f.Close()
			return nil, fmt.Errorf("locking the result file: %w", err)
		}
		line, err := json.Marshal(journal.header)
		size := 0
		if err == nil {
			size, err = journal.writeLine(line)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		journal.end = int64(size)
		return journal, nil
	}
}

// Resume opens the newest journal for the job's set and the subject's model in a folder, or returns
// nil if there is none. It is an error if the app, the set, the selected cases or the metrics have
// changed since, or if another process is running it (only Linux and macOS detect this).
func (j *Job) Resume(dir string, subject Subject) (*Journal, error) {
	key, err := j.hashRun(subject)
	if err != nil {
		return nil, err
	}
	files, err := filepath.Glob(filepath.Join(escapeGlob(dir), "*"+journalSuffix))
	if err != nil {
		return nil, err
	}
	var newest *Journal
	for _, file := range files {
		journal, err := j.openJournal(file)
		if err != nil {
			return nil, fmt.Errorf("reading %s: %w", file, err)
		}
		h := journal.header
		if h.App != subject.App || h.Model != subject.Model || h.SetID != j.Set.ID || newest != nil && newest.header.Created > h.Created {
			journal.file.Close()
			continue
		}
		if newest != nil {
			newest.file.Close()
		}
		newest = journal
	}
	if newest == nil {
		return nil, nil
	}
	if newest.header.Key != key {
		newest.file.Close()
		return nil, fmt.Errorf("cannot resume %s: the app, the set, the selected cases or the metrics have changed since; delete the file, or run without --resume", newest.filePath(journalSuffix))
	}
	if err := lockFile(newest.file); err != nil {
		newest.file.Close()
		return nil, fmt.Errorf("cannot resume %s: another process is running it", newest.filePath(journalSuffix))
	}
	return newest, newest.readEntries()
}

func escapeGlob(dir string) string {
	return strings.NewReplacer(`*`, `[*]`, `?`, `[?]`, `[`, `[[]`).Replace(dir)
}

func (j *Job) newJournal(dir string, header journalHeader) *Journal {
	journal := &Journal{dir: dir, header: header, order: map[string]int{}, counts: map[string]int{}}
	for i, c := range j.Cases {
		journal.order[c.ID] = i
	}
	return journal
}

// hashRun returns a run's key.
func (j *Job) hashRun(subject Subject) (string, error) {
	h := sha256.New()
	fmt.Fprintf(h, "%s %q %t\n", subject.Revision, subject.Model, j.AllowNotEvaluated)
	for _, c := range j.Cases {
		fmt.Fprintf(h, "%q\n", c.ID)
	}
	parts := []any{j.Set.Set}
	for _, m := range j.Measures {
		parts = append(parts, m)
	}
	if j.Simulator != nil {
		parts = append(parts, j.Simulator)
	}
	for _, part := range parts {
		b, err := eval.EncodeFile(part)
		if err != nil {
			return "", err
		}
		fmt.Fprintf(h, "%s\n", b)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

func (j *Job) openJournal(file string) (*Journal, error) {
	f, err := regular.Open(os.OpenFile, file, os.O_RDWR)
	if err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(io.LimitReader(f, int64(limit.EvalFile.Bytes))).ReadBytes('\n')
	journal := j.newJournal(filepath.Dir(file), journalHeader{})
	if err == nil {
		err = json.Unmarshal(line, &journal.header)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, err
	}
	journal.file, journal.end = f, int64(len(line))
	return journal, nil
}

// readEntries finds the results, and cuts an incomplete last line.
func (j *Journal) readEntries() error {
	r := bufio.NewReader(io.NewSectionReader(j.file, j.end, 1<<62))
	for {
		line, err := r.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return j.file.Truncate(j.end)
		}
		if err != nil {
			return err
		}
		result, err := j.decodeResult(line)
		if err != nil {
			return fmt.Errorf("reading %s: %w", j.filePath(journalSuffix), err)
		}
		j.addEntry(result, len(line))
	}
}

func (j *Journal) decodeResult(line []byte) (*eval.CaseResult, error) {
	result := &eval.CaseResult{}
	return result, eval.Decode(j.filePath(journalSuffix), line, result)
}

func (j *Journal) addEntry(result *eval.CaseResult, size int) {
	j.entries = append(j.entries, journalEntry{result.CaseID, j.end, int64(size)})
	j.counts[result.CaseID]++
	switch result.Status {
	case eval.Passed:
		j.cases, j.passed = j.cases+1, j.passed+1
	case eval.Failed:
		j.cases++
	}
	j.end += int64(size)
}

// filePath returns the path to the journal or the result.
func (j *Journal) filePath(suffix string) string {
	return filepath.Join(j.dir, j.header.newResult().Name+suffix)
}

// Subject returns what the run evaluates.
func (j *Journal) Subject() Subject { return j.header.Subject }

// ResultID returns the ID for the result that Finish writes.
func (j *Journal) ResultID() string { return j.header.newResult().ID }

// Count returns how many results a case has.
func (j *Journal) Count(caseID string) int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.counts[caseID]
}

// CountPassed returns how many results passed or failed, and how many of them passed.
func (j *Journal) CountPassed() (cases, passed int64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.cases, j.passed
}

// Len returns the number of results.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.entries)
}

// Append writes a result.
func (j *Journal) Append(result *eval.CaseResult) error {
	line, err := eval.EncodeLine(result)
	if err != nil {
		return fmt.Errorf("encoding the result of case %s: %w", result.CaseID, err)
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	size, err := j.writeLine(line)
	if err != nil {
		return err
	}
	j.addEntry(result, size)
	return nil
}

// writeLine writes a line with one call at the end, and returns its size.
func (j *Journal) writeLine(line []byte) (int, error) {
	n, err := j.file.WriteAt(append(slices.Clip(line), '\n'), j.end)
	if err != nil {
		return 0, fmt.Errorf("writing results: %w", err)
	}
	return n, nil
}

// Outcomes reads a journal's outcomes, one at a time.
func (j *Journal) Outcomes(allowNotEvaluated bool) iter.Seq2[*eval.Outcome, error] {
	merge := func(runs []*eval.CaseResult) *eval.Outcome {
		o := eval.NewOutcome(runs, allowNotEvaluated)
		o.Model = j.header.Model
		return o
	}
	return func(yield func(*eval.Outcome, error) bool) {
		var runs []*eval.CaseResult
		for result, err := range j.Results() {
			if err != nil {
				yield(nil, err)
				return
			}
			if len(runs) > 0 && runs[0].CaseID != result.CaseID {
				if !yield(merge(runs), nil) {
					return
				}
				runs = nil
			}
			runs = append(runs, result)
		}
		if len(runs) > 0 {
			yield(merge(runs), nil)
		}
	}
}

// Results reads the results in the set's case order; results from several runs follow each
// other.
func (j *Journal) Results() iter.Seq2[*eval.CaseResult, error] {
	return func(yield func(*eval.CaseResult, error) bool) {
		for _, e := range j.sortedEntries() {
			line, err := j.readEntry(e)
			var result *eval.CaseResult
			if err == nil {
				result, err = j.decodeResult(line)
			}
			if !yield(result, err) || err != nil {
				return
			}
		}
	}
}

// sortedEntries returns the entries in case order.
func (j *Journal) sortedEntries() []journalEntry {
	j.mu.Lock()
	defer j.mu.Unlock()
	entries := slices.Clone(j.entries)
	slices.SortStableFunc(entries, func(a, b journalEntry) int { return cmp.Compare(j.order[a.caseID], j.order[b.caseID]) })
	return entries
}

func (j *Journal) readEntry(e journalEntry) ([]byte, error) {
	line := make([]byte, e.size)
	_, err := j.file.ReadAt(line, e.start)
	return line, err
}

// Finish writes ADK's result file, deletes the journal and returns the result's path.
func (j *Journal) Finish() (string, error) {
	path := j.filePath(eval.ResultSuffix)
	if err := j.writeResult(path); err != nil {
		return "", fmt.Errorf("writing the result: %w", err)
	}
	return path, cmp.Or(j.file.Close(), os.Remove(j.filePath(journalSuffix)))
}

// Close closes the journal and keeps its file, unless there are no results.
func (j *Journal) Close() error {
	err := j.file.Close()
	if j.Len() == 0 {
		err = cmp.Or(err, os.Remove(j.filePath(journalSuffix)))
	}
	return err
}

// Discard closes and deletes the journal.
func (j *Journal) Discard() error {
	return cmp.Or(j.file.Close(), os.Remove(j.filePath(journalSuffix)))
}

// writeResult writes the result to a temporary file and renames it.
func (j *Journal) writeResult(path string) error {
	f, err := os.CreateTemp(j.dir, ".result-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	w := bufio.NewWriter(f)
	err = cmp.Or(j.writeCases(w), w.Flush(), f.Chmod(0o644), f.Sync())
	if err = cmp.Or(err, f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// writeCases writes the result one case at a time: all cases may not fit in memory.
func (j *Journal) writeCases(w *bufio.Writer) error {
	const cases = `"eval_case_results": [`
	frame, err := eval.EncodeFile(j.header.newResult())
	if err != nil {
		return err
	}
	before, after, ok := bytes.Cut(frame, []byte(cases))
	if !ok {
		return errors.New("the result has no cases")
	}
	w.Write(before)
	w.WriteString(cases)
	separator := "\n    "
	for _, e := range j.sortedEntries() {
		line, err := j.readEntry(e)
		if err != nil {
			return err
		}
		var item bytes.Buffer
		if err := json.Indent(&item, bytes.TrimSpace(line), "    ", "  "); err != nil {
			return err
		}
		w.WriteString(separator)
		w.Write(item.Bytes())
		separator = ",\n    "
	}
	w.WriteString("\n  ")
	_, err = w.Write(after)
	return err
}
