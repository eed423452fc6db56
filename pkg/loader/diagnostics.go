package loader

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"agenthost/internal/agentconfig"
	"agenthost/internal/limit"
	"agenthost/internal/policy"
	"agenthost/pkg/spec"
)

// unknownNameError returns the error for a name that is not in a list. The format what
// contains %s for the quoted name.
func unknownNameError(at *spec.Node, what, name string, names []string) spec.Diagnostic {
	d := at.Errorf("unknown-name", "unknown %s; %s", fmt.Sprintf(what, strconv.Quote(name)), listNames(names))
	near := spec.Suggest(name, names)
	if i := slices.IndexFunc(names, func(n string) bool { return strings.HasPrefix(n, name+"_") }); near == "" && i >= 0 {
		near = names[i]
	}
	if near != "" {
		d = d.WithNearName(name, near)
	}
	return d
}

// missingKindError returns the error for a name that a list in Kinds lacks, with the package that
// has it, if known.
func missingKindError(at *spec.Node, list, name string, names []string) spec.Diagnostic {
	what := map[string]string{agentconfig.ModelList: "provider %s", agentconfig.ToolList: "kind of tool %s", agentconfig.BuiltinList: "built-in tool %s"}[list]
	hint, ok := agentconfig.HintSource(list, name)
	if !ok {
		return unknownNameError(at, what, name, names)
	}
	return at.Errorf("unknown-name", "this program does not have the %s; %s", fmt.Sprintf(what, strconv.Quote(name)), listNames(names)).WithHint("%s", hint)
}

func listNames(names []string) string {
	if len(names) == 0 {
		return "none available"
	}
	if len(names) > maxListed {
		return fmt.Sprintf("available: %s and %d more", strings.Join(names[:maxListed], ", "), len(names)-maxListed)
	}
	return "available: " + strings.Join(names, ", ")
}

// policyDiagnostic converts a refusal to a diagnostic at its position.
func policyDiagnostic(err error, at spec.Text) spec.Diagnostics {
	refused := (*policy.Refused)(nil)
	if !errors.As(err, &refused) {
		return nil
	}
	return spec.Diagnostics{at.Errorf(0, "grant", "%s", refused.Message()).WithHint("%s", refused.Hint())}
}

// slashHint is the hint for paths with backslashes.
const slashHint = `write / instead of \`

// addSlashHint adds slashHint to the diagnostic about such a path.
func addSlashHint(d spec.Diagnostic, given string) spec.Diagnostic {
	if strings.Contains(given, "\\") {
		return d.WithHint("%s: %s", slashHint, strings.ReplaceAll(given, "\\", "/"))
	}
	return d
}

func isIdentifier(s string) bool {
	for i, r := range s {
		if r != '_' && !unicode.IsLetter(r) && (i == 0 || !unicode.IsDigit(r)) {
			return false
		}
	}
	return s != ""
}

// mergeByPlace joins one rule's warnings at one place, which differ only in the agents that lead
// there, into the first.
func mergeByPlace(ds spec.Diagnostics) spec.Diagnostics {
	type place struct {
		at     spec.Pos
		broken string
	}
	first, more := map[place]int{}, map[int]int{}
	var merged spec.Diagnostics
	for _, d := range ds {
		at := place{d.Pos, d.Rule}
		if i, ok := first[at]; ok {
			if d.Message != merged[i].Message {
				more[i]++
			}
			continue
		}
		first[at] = len(merged)
		merged = append(merged, d)
	}
	for i, n := range more {
		merged[i].Message += fmt.Sprintf("; the same for other agents: %d", n)
	}
	return merged
}

// formatOSError formats an error without the operation and the path.
func formatOSError(err error) string {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	if errors.Is(err, fs.ErrNotExist) {
		return "file not found"
	}
	return err.Error()
}

// formatFolderError formats the reason why a folder cannot be read, without its path.
func formatFolderError(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "folder not found"
	}
	return formatOSError(err)
}

// Limits for an app's folder without hidden folders. Polling an unchanged folder reads each entry
// once.
const (
	maxFolderDepth   = 32
	maxFolderEntries = 10_000
	maxFolderBytes   = 256 << 20
	// maxWatchedFolders limits the folders per app with file notifications; changes in other
	// folders are found by polling.
	maxWatchedFolders = 500
)

// maxOutsideFiles limits the outside files that an app depends on. limit.AppLoad has the other
// limits for a load without its tests.
const maxOutsideFiles = 1000

// maxAgents limits the tree size. Agents that use each other twice at each level would otherwise
// grow exponentially.
const maxAgents = 4000

// maxTransferPairs limits the agent pairs that may transfer to each other. An agent's requests
// describe all its transfer targets, so 1000 sub-agents under one agent would take 1,000,000
// descriptions.
const maxTransferPairs = 100_000

// A watch keeps maxReports reports. Only the last maxCompared keep the files to compute changes
// from.
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

// toDiagnostic returns the error as a problem with an app's folder.
func (e *limitError) toDiagnostic(dir string) spec.Diagnostic {
	return spec.Diagnostic{Pos: spec.Pos{File: filepath.ToSlash(dir)}, Rule: "limit", Message: e.message, Hint: e.hint}
}

// A loadBudget tracks one load's limits. The first exceeded limit ends the load: nothing more is
// read.
type loadBudget struct {
	cause        func() error
	deadline     time.Time
	bytes, items int
	exceeded     *limitError
}

func newLoadBudget(ctx context.Context) *loadBudget {
	return &loadBudget{
		cause:    func() error { return context.Cause(ctx) },
		deadline: time.Now().Add(limit.AppLoad.Time), bytes: limit.AppLoad.Bytes, items: limit.AppLoad.Values,
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
	folderTooDeep  = &limitError{"the app's folder exceeds the limit of 32 folder levels", moveElsewhere}
	folderTooFull  = &limitError{"the app's folder exceeds the limit of 10000 files and folders", moveElsewhere}
	folderTooLarge = &limitError{"the app's folder exceeds the limit of 256 MiB in files of up to 4 MiB", moveElsewhere}
	folderTooSlow  = &limitError{"reading the app's folder exceeds the limit of 10s", moveElsewhere}

	loadTooLarge     = &limitError{"the files and values of the app exceed the limit of 32 MiB", "include large files with ${file:PATH} less often: each use counts"}
	loadTooManyItems = &limitError{"the app's documents exceed the limit of 500000 lines, keys and items", "split the app"}
	loadTooLong      = &limitError{"loading the app exceeds the limit of 10s", ""}
	tooManyOutside   = &limitError{"the app exceeds the limit of 1000 files outside its folder", ""}
)

func isLimitError(err error) bool {
	limit := (*limitError)(nil)
	return errors.As(err, &limit)
}

const (
	// maxListTime limits how long all folders may take to be listed. A folder that takes
	// longer is unreadable until its listing has ended.
	maxListTime = 3 * time.Second
	// maxFolderProblems limits the problems in one folder's status.
	maxFolderProblems = 20
	// maxLaneTime is how long a poll blocks others in its lane; then they run
	// concurrently.
	maxLaneTime = time.Second
	// costlyThreshold is the poll duration from which an app is costly.
	costlyThreshold = 250 * time.Millisecond
	// idleFactor is the minimum pause between polls, in poll durations, so that an idle app uses at
	// most 10 % of a processor.
	idleFactor = 10
	// reloadTimeout limits how long Reload waits for all apps.
	reloadTimeout = 30 * time.Second
	// stopTimeout limits how long Run waits for polls that do not end, such as on a file
	// system that does not respond.
	stopTimeout = 10 * time.Second
)
