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
	// maxWatchedFolders limits the folders of one app with file notifications;
	// changes in other folders are found by polling.
	maxWatchedFolders = 500
)

// The limits of one load of an app.
const (
	// maxLoadTime limits the time of a load without its tests.
	maxLoadTime = 10 * time.Second
	// maxLoadBytes limits the size of files and values of references, counted at
	// each use.
	maxLoadBytes = 32 << 20
	// maxLoadItems limits the lines, keys and items of the documents.
	maxLoadItems = 500_000
	// maxOutsideFiles limits the files outside of its folder that an app depends on.
	maxOutsideFiles = 1000
)

// maxAgents limits the size of the tree. Agents that use each other twice at each level
// would otherwise grow exponentially.
const maxAgents = 4000

// maxTransferPairs limits the pairs of agents that may transfer to each other. The
// requests of each agent describe all of its transfer targets, so 1000 sub-agents of
// one agent would take 1,000,000 descriptions.
const maxTransferPairs = 100_000

// maxSecret limits the size of a secret file, in bytes.
const maxSecret = 64 << 10

const (
	// maxGateTests limits the concurrent tests of an app, because the host serves
	// requests at the same time.
	maxGateTests = 2
	// gateTestTimeout limits the time of one test.
	gateTestTimeout = 30 * time.Second
	// maxGateCases limits the concurrent cases of eval sets, which mostly wait for models.
	maxGateCases = 4
)

// A watch keeps maxReports reports. Only the last maxCompared of them keep the files
// that are needed to compute changes.
const (
	maxReports  = 64
	maxCompared = 8
)

// maxUnwrittenReports limits the warnings about keys that nothing writes.
const maxUnwrittenReports = 1000

// maxListed limits how many names a message lists.
const maxListed = 50

// A limitError is a limit that an app exceeds, with a hint.
type limitError struct{ message, hint string }

// Error returns the message.
func (e *limitError) Error() string { return e.message }

// toDiagnostic returns the error as a problem of an app's folder.
func (e *limitError) toDiagnostic(dir string) spec.Diagnostic {
	return spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "limit", Message: e.message, Hint: e.hint}
}

// A loadBudget tracks the limits of one load. The first exceeded limit ends the load:
// nothing more is read.
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

// consume subtracts bytes and items from the budget, and returns an error if a limit
// is exceeded.
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
			b.exceeded = &limitError{message: "loading the app was cancelled: " + err.Error()}
		}
	}
	if b.exceeded != nil {
		return b.exceeded
	}
	return nil
}

// isExceeded reports whether a limit is exceeded.
func (b *loadBudget) isExceeded() bool { return b.consume(0, 0) != nil }

const moveElsewhere = "move files that do not belong to the app elsewhere, or into a folder whose name begins with a dot"

var (
	folderTooDeep  = &limitError{"the app's folder exceeds the limit of 32 levels of folders", moveElsewhere}
	folderTooFull  = &limitError{"the app's folder exceeds the limit of 10000 files and folders", moveElsewhere}
	folderTooLarge = &limitError{"the app's folder exceeds the limit of 256 MiB in files of up to 4 MiB", moveElsewhere}
	folderTooSlow  = &limitError{"reading the app's folder exceeds the limit of 10s", moveElsewhere}

	loadTooLarge     = &limitError{"the files and values of the app exceed the limit of 32 MiB", "include large files with ${file:PATH} less often: each use counts"}
	loadTooManyItems = &limitError{"the app's documents exceed the limit of 500000 lines, keys and items", "split the app"}
	loadTooLong      = &limitError{"loading the app exceeds the limit of 10s", ""}
	tooManyOutside   = &limitError{"the app exceeds the limit of 1000 files outside of its folder", ""}
)

func isLimitError(err error) bool {
	limit := (*limitError)(nil)
	return errors.As(err, &limit)
}

const (
	// maxLaneTime is how long a poll blocks others in its lane; then they run
	// concurrently.
	maxLaneTime = time.Second
	// costlyThreshold is the poll duration from which an app is costly.
	costlyThreshold = 250 * time.Millisecond
	// idleFactor is the minimum pause between polls, as a multiple of the poll duration,
	// so that an idle app uses at most a tenth of a processor.
	idleFactor = 10
	// reloadTimeout limits how long Reload waits for all apps.
	reloadTimeout = 30 * time.Second
	// stopTimeout limits how long Run waits for polls that do not end, such as on a file
	// system that does not respond.
	stopTimeout = 10 * time.Second
)
