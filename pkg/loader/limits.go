package loader

import (
	"context"
	"errors"
	"path/filepath"
	"time"

	"agenthost/pkg/spec"
)

// The limits of an app's folder, hidden folders apart. A poll of an unchanged
// folder reads each of its entries once.
const (
	maxFolderDepth   = 32
	maxFolderEntries = 10_000
	maxFolderBytes   = 256 << 20
	// maxWatchedFolders is how many folders of one app the system notifies of;
	// changes in the others are found by polling.
	maxWatchedFolders = 500
)

// A limitError is a limit that an app exceeds, and what to do about it.
type limitError struct{ message, hint string }

// Error is the message.
func (e *limitError) Error() string { return e.message }

// toDiagnostic makes it a problem of an app.
func (e *limitError) toDiagnostic(dir string) spec.Diagnostic {
	return spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "limit", Message: e.message, Hint: e.hint}
}

// The limits of one load of an app.
const (
	// maxLoadTime is how long it may take, its tests apart.
	maxLoadTime = 10 * time.Second
	// maxLoadBytes bounds the files and the values of references, each as often
	// as it is used.
	maxLoadBytes = 32 << 20
	// maxLoadItems bounds the lines, keys and items of its documents.
	maxLoadItems = 500_000
	// maxOutsideFiles bounds the files elsewhere that an app depends on.
	maxOutsideFiles = 1000
)

// A loadBudget is what is left of the limits of one load. The first limit that
// is exceeded ends the load: what follows is not read any more.
type loadBudget struct {
	cause        func() error
	deadline     time.Time
	bytes, items int
	exceeded     *limitError
}

func newLoadBudget(ctx context.Context) *loadBudget {
	return &loadBudget{
		cause:    func() error { return context.Cause(ctx) },
		deadline: time.Now().Add(maxLoadTime), bytes: maxLoadBytes, items: maxLoadItems,
	}
}

// consume takes bytes and pieces from the budget, and returns the limit that is
// exceeded, if one is.
func (b *loadBudget) consume(bytes, items int) error {
	b.bytes -= bytes
	b.items -= items
	switch {
	case b.exceeded != nil:
	case b.bytes < 0:
		b.exceeded = loadTooLarge
	case b.items < 0:
		b.exceeded = loadTooManyItems
	case time.Now().After(b.deadline):
		b.exceeded = loadTooLong
	default:
		if err := b.cause(); err != nil {
			b.exceeded = &limitError{message: "loading the app was stopped: " + err.Error()}
		}
	}
	if b.exceeded != nil {
		return b.exceeded
	}
	return nil
}

// isExceeded reports whether a limit is exceeded by now.
func (b *loadBudget) isExceeded() bool { return b.consume(0, 0) != nil }

const moveElsewhere = "move what is no part of the app elsewhere, or into a folder whose name begins with a dot"

var (
	folderTooDeep  = &limitError{"the app's folder exceeds the limit of 32 levels of folders", moveElsewhere}
	folderTooFull  = &limitError{"the app's folder exceeds the limit of 10000 files and folders", moveElsewhere}
	folderTooLarge = &limitError{"the app's folder exceeds the limit of 256 MiB in files of up to 4 MiB", moveElsewhere}
	folderTooSlow  = &limitError{"reading the app's folder exceeds the limit of 10s", moveElsewhere}

	loadTooLarge     = &limitError{"what the app reads exceeds the limit of 32 MiB", "a file counts each time that ${file:PATH} puts it in"}
	loadTooManyItems = &limitError{"the app's documents exceed the limit of 500000 lines, keys and items", "split the app"}
	loadTooLong      = &limitError{"loading the app exceeds the limit of 10s", ""}
	tooManyOutside   = &limitError{"the app depends on more than 1000 files outside of its folder", ""}
)

func isLimitError(err error) bool {
	limit := (*limitError)(nil)
	return errors.As(err, &limit)
}

// maxTransferPairs bounds the pairs of agents of which one may hand over to the
// other. Each agent's model is told of all that it may hand over to, so that a
// thousand agents below one would take a million descriptions.
const maxTransferPairs = 100_000

// countTransferPairs counts those among an agent that asks a model and all right
// below it, and tells when there are too many.
func (j *job) countTransferPairs(p *resolvedAgent) {
	if p.plan.Kind.Name != "LlmAgent" {
		return
	}
	before := j.transferPairs
	j.transferPairs += len(p.subs) * (len(p.subs) + 1)
	if before <= maxTransferPairs && j.transferPairs > maxTransferPairs {
		j.report(p.plan.Node.Errorf("limit", "the app's agents may hand over to each other in more than %d ways", maxTransferPairs).
			WithHint("put agents below others, or offer them as tools"))
	}
}
