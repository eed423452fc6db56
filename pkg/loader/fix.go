package loader

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path"
	"slices"

	"agenthost/pkg/spec"
)

// Check reports all problems with a folder's app, its tests and its eval sets.
func (l *Loader) Check(ctx context.Context, dir string) spec.Diagnostics {
	got := l.loadApp(ctx, dir, nil, checkFiles)
	if got.app != nil {
		got.app.Close()
	}
	return got.ds
}

// maxFixRounds limits how often an app is checked again after a repair: a syntax
// error hides later problems.
const maxFixRounds = 100

// Fix applies the safe fixes to an app's files; all other bytes stay unchanged. It returns the
// repaired and the remaining problems. Files are replaced atomically. The error is about a file
// that could not be written, for example because it changed after it was read; this file stays
// unchanged.
func (l *Loader) Fix(ctx context.Context, dir string) (repaired, remaining spec.Diagnostics, err error) {
	for range maxFixRounds {
		got := l.loadApp(ctx, dir, nil, checkFiles)
		if got.app != nil {
			got.app.Close()
		}
		if remaining = got.ds; ctx.Err() != nil {
			return repaired, remaining, ctx.Err()
		}
		done, err := repairFiles(dir, got)
		repaired = append(repaired, done...)
		if err != nil || len(done) == 0 {
			return repaired, remaining, err
		}
	}
	return repaired, remaining, nil
}

// repairFiles applies the fixes to a load's files, and stops at a file that cannot be written. It
// skips shared files above the folder.
func repairFiles(dir string, got loadResult) (repaired spec.Diagnostics, err error) {
	of := map[string]map[spec.Fix]spec.Diagnostic{}
	for _, d := range got.ds {
		if d.Fix == (spec.Fix{}) {
			continue
		}
		if of[d.Pos.File] == nil {
			of[d.Pos.File] = map[spec.Fix]spec.Diagnostic{}
		}
		of[d.Pos.File][d.Fix] = d
	}
	if len(of) == 0 {
		return nil, nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, file := range slices.Sorted(maps.Keys(got.read)) {
		shown := path.Join(formatDir(dir), file)
		text, done := spec.ApplyFixes(got.read[file], slices.Collect(maps.Keys(of[shown])))
		if escapesFolder(file) || len(done) == 0 || !parsesFurther(got.read[file], text) {
			continue
		}
		if err := replaceFile(root, file, got.read[file], text); err != nil {
			return repaired, fmt.Errorf("repairing %s: %w", shown, err)
		}
		for _, f := range done {
			repaired = append(repaired, of[shown][f])
		}
	}
	return repaired, nil
}

// parsesFurther reports whether the repaired text parses, or has a later first syntax error than
// the original.
func parsesFurther(before, after []byte) bool {
	_, old := spec.Parse("", before)
	_, now := spec.Parse("", after)
	if !now.HasErrors() {
		return true
	}
	return old.HasErrors() && isAfter(firstErrorPos(now), firstErrorPos(old))
}

func firstErrorPos(ds spec.Diagnostics) spec.Pos {
	at := slices.IndexFunc(ds, func(d spec.Diagnostic) bool { return d.Severity == spec.Error })
	return ds[at].Pos
}

func isAfter(p, q spec.Pos) bool {
	return p.Line > q.Line || p.Line == q.Line && p.Col > q.Col
}
