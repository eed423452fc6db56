package mcptool

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/limit"
	"agenthost/pkg/tool"
)

// The bounds of a list of a server. A longer list is an error, so that nothing is lost
// without notice.
const (
	maxPages  = 100
	maxListed = 5000
)

// A limitError reports an answer of a server that exceeds a limit.
type limitError struct{ text string }

func (e limitError) Error() string { return e.text }

// listPages collects the items of a list from all of its pages. key is the member of a page that
// has the items. A cursor that was used before ends the list, with a warning in the log.
func listPages[T any](l *link, key string, page func(cursor string) (raw []byte, err error)) ([]*T, error) {
	var all []*T
	size, cursor := 0, ""
	used := map[string]bool{}
	for range maxPages {
		raw, err := page(cursor)
		if err != nil {
			return nil, err
		}
		if tooLarge, ok := errors.AsType[*limit.Error](limit.MCPList.CheckJSON(raw)); ok {
			return nil, limitError{fmt.Sprintf("the list of %s exceeds %s", key, tooLarge.Excess())}
		}
		found, err := decodePage[T](raw, key)
		if err != nil {
			return nil, err
		}
		l.logFaults("mcp server sent a list that is not as in the protocol", found.faults)
		all = append(all, found.items...)
		size += len(raw)
		switch {
		case len(all) > maxListed:
			return nil, limitError{fmt.Sprintf("the list of %s exceeds the limit of %d", key, maxListed)}
		case size > limit.MCPList.Bytes:
			return nil, limitError{fmt.Sprintf("the list of %s exceeds the limit of %d MiB", key, limit.MCPList.Bytes>>20)}
		case found.next == "":
			return all, nil
		case used[found.next]:
			l.logFaults("mcp server repeats the cursor of a list, which ends there", []string{key})
			return all, nil
		}
		cursor = found.next
		used[cursor] = true
	}
	return nil, limitError{fmt.Sprintf("the list of %s exceeds the limit of %d pages", key, maxPages)}
}

// logFaults logs what a server sent that is not as in the protocol.
func (l *link) logFaults(message string, faults []string) {
	if len(faults) > 0 {
		l.logger.Warn(message, "server", l.server.displayName(), "faults", l.cleanText(strings.Join(faults[:min(len(faults), maxFaults)], "; ")), "count", len(faults))
	}
}

// listTools lists the tools of the server.
func (l *link) listTools(ctx context.Context, session *mcp.ClientSession) ([]*mcp.Tool, error) {
	return listPages[mcp.Tool](l, "tools", func(cursor string) ([]byte, error) {
		res, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		return unwrapResult(res.Meta), nil
	})
}

// listCaches are the lists of a server that are used again.
type listCaches struct {
	tools     listCache[[]*mcp.Tool]
	resources listCache[[]*mcp.Resource]
	prompts   listCache[[]*mcp.Prompt]
	// promptTexts has the texts of prompts by their names and arguments.
	promptTexts listCache[string]
}

// dropAll drops all lists.
func (c *listCaches) dropAll() {
	c.tools.dropLists()
	c.resources.dropLists()
	c.dropPrompts()
}

// dropPrompts drops the prompts.
func (c *listCaches) dropPrompts() {
	c.prompts.dropLists()
	c.promptTexts.dropLists()
}

// maxCachedLists and maxCachedBytes bound a cache, whose entries belong to concurrent runs.
const (
	maxCachedLists = 64
	maxCachedBytes = 32 << 20
)

// A listCache keeps what was read from a server, by its use. The zero value is ready to
// use, by many goroutines.
type listCache[T any] struct {
	mu      sync.Mutex
	entries map[string]cachedList[T]
	// size is the size of all entries as JSON.
	size int
	// drops counts the calls of dropLists: a list that was read before one is not kept.
	drops int
	// onDrop, if set, is called after dropLists; tests wait for it.
	onDrop func()
}

type cachedList[T any] struct {
	value T
	at    time.Time
	size  int
}

// dropLists drops all lists, such as when the server reports a change.
func (c *listCache[T]) dropLists() {
	c.mu.Lock()
	c.entries, c.size = nil, 0
	c.drops++
	onDrop := c.onDrop
	c.mu.Unlock()
	if onDrop != nil {
		onDrop()
	}
}

// getList returns the list of a key, which load reads if it is older than maxAge.
func (c *listCache[T]) getList(key string, now time.Time, maxAge time.Duration, load func() (T, error)) (T, error) {
	c.mu.Lock()
	found, ok := c.entries[key]
	drops := c.drops
	c.mu.Unlock()
	if ok && now.Sub(found.at) < maxAge {
		return found.value, nil
	}
	value, err := load()
	if err != nil {
		return value, err
	}
	if maxAge <= 0 {
		return value, nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == drops {
		c.addEntry(key, cachedList[T]{value, now, len(raw)})
	}
	return value, nil
}

// addEntry adds an entry instead of older ones. The caller holds the lock.
func (c *listCache[T]) addEntry(key string, e cachedList[T]) {
	c.dropEntry(key)
	for len(c.entries) > 0 && (len(c.entries) >= maxCachedLists || c.size+e.size > maxCachedBytes) {
		c.dropOldest()
	}
	if c.entries == nil {
		c.entries = map[string]cachedList[T]{}
	}
	c.entries[key] = e
	c.size += e.size
}

func (c *listCache[T]) dropEntry(key string) {
	c.size -= c.entries[key].size
	delete(c.entries, key)
}

// dropOldest drops the oldest entry. The caller holds the lock.
func (c *listCache[T]) dropOldest() {
	oldest, first := "", true
	for key, e := range c.entries {
		if first || e.at.Before(c.entries[oldest].at) {
			oldest, first = key, false
		}
	}
	c.dropEntry(oldest)
}

// maxToolDescription and maxToolSchema bound what one tool adds to each model request, in
// characters and bytes. Longer descriptions are cut; a tool with a larger schema is not
// offered.
const (
	maxToolDescription = 4000
	maxToolSchema      = 64 << 10
)

// maxTools bounds the tools that one server may add to a model request.
const maxTools = 500

// reservedNames are the names of ADK's own functions, which no server may provide.
func reservedNames() []string {
	return []string{
		"adk_request_confirmation", "adk_request_credential", tool.RequestInput, "adk_framework",
		"transfer_to_agent", "set_model_response", "finish_task", loadResourceName,
	}
}
