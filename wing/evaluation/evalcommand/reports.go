package evalcommand

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"agenthost/internal/command"
	"agenthost/wing/evaluation/eval"
	"agenthost/wing/evaluation/evalreport"
	"agenthost/wing/evaluation/evalrun"
)

// evalReports are the --output report and the --report files.
type evalReports struct {
	output *evalreport.Report
	files  []*reportFile
}

// A reportFile is a report in a file.
type reportFile struct {
	path   string
	report *evalreport.Report
}

// reportFormat returns a report's format by its file's suffix.
func reportFormat(path string) (string, error) {
	formats := map[string]string{".html": "html", ".xml": "junit", ".json": "json", ".csv": "csv"}
	format, ok := formats[filepath.Ext(path)]
	if !ok {
		return "", fmt.Errorf("--report must be a file with the suffix .html, .xml (JUnit), .json or .csv, got %q", path)
	}
	return format, nil
}

// openReports returns empty reports. The caller closes them.
func (f *evalFlags) openReports() (*evalReports, error) {
	r := &evalReports{}
	var err error
	if r.output, err = evalreport.New(f.output, f.verbose); err != nil {
		return nil, err
	}
	for _, path := range f.reports {
		if info, err := os.Stat(filepath.Dir(path)); err != nil || !info.IsDir() { // before anything runs
			return nil, errors.Join(fmt.Errorf("--report: folder %s not found", filepath.Dir(path)), r.closeAll())
		}
		format, _ := reportFormat(path) // validated
		report, err := evalreport.New(format, false)
		if err != nil {
			return nil, errors.Join(err, r.closeAll())
		}
		r.files = append(r.files, &reportFile{path, report})
	}
	return r, nil
}

// listAll returns all reports.
func (r *evalReports) listAll() []*evalreport.Report {
	all := []*evalreport.Report{r.output}
	for _, f := range r.files {
		all = append(all, f.report)
	}
	return all
}

func (r *evalReports) closeAll() error {
	var errs []error
	for _, report := range r.listAll() {
		errs = append(errs, report.Close())
	}
	return errors.Join(errs...)
}

// addRun adds a run, and its result's file.
func (r *evalReports) addRun(job *evalrun.Job, journal *evalrun.Journal, baseline *eval.SetResult) error {
	for _, report := range r.listAll() {
		if err := report.AddRun(job, journal, baseline); err != nil {
			return err
		}
	}
	return nil
}

func (r *evalReports) addFile(path string) {
	for _, report := range r.listAll() {
		report.Files = append(report.Files, filepath.ToSlash(path))
	}
}

// writeAll writes the files, and then the --output report.
func (r *evalReports) writeAll(env command.Env, took time.Duration) error {
	for _, f := range r.files {
		f.report.Duration = took
		var text bytes.Buffer
		err := f.report.Write(&text, io.Discard)
		if err == nil {
			err = os.WriteFile(f.path, text.Bytes(), 0o644)
		}
		if err != nil {
			return fmt.Errorf("--report: %w", err)
		}
	}
	r.output.Duration = took
	return r.output.Write(env.Out, env.Err)
}
