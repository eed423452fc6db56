package mcptool

import (
	"encoding/json"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// maxCachedLists and maxCachedBytes bound a cache that concurrent runs share.
const (
	maxCachedLists = 64
	maxCachedBytes = 32 << 20
)

// listCaches are a server's lists that are used again.
type listCaches struct {
	tools     listCache[[]*mcp.Tool]
	resources listCache[[]*mcp.Resource]
	prompts   listCache[[]*mcp.Prompt]
	// promptTexts has the prompts' texts by their names and arguments.
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

// A listCache keeps what was read from a server, by its use. The zero value is ready to
// use, by many goroutines.
type listCache[T any] struct {
	mu      sync.Mutex
	entries map[string]cachedList[T]
	// size is the size of all entries as JSON.
	size int
	// drops counts the calls to dropLists: a list that was read before one is not kept.
	drops int
	// onDrop, if set, is called after dropLists; tests wait for it.
	onDrop func()
}

type cachedList[T any] struct {
	value T
	at    time.Time
	// ttl is how long the server lets clients use the list again.
	ttl  time.Duration
	size int
}

// maxTTL bounds the ttl in a server's list.
const maxTTL = time.Hour

// sharedKey is the key for a list that runs share.
const sharedKey = ""

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

// watchDrops sets the function that is called after dropLists.
func (c *listCache[T]) watchDrops(onDrop func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.onDrop = onDrop
}

// getList returns the list for a key. load reads it again if it is older than maxAge, and than the
// ttl that load returned: a list with a ttl is shared by all keys.
func (c *listCache[T]) getList(key string, now time.Time, maxAge time.Duration, load func() (value T, ttl time.Duration, err error)) (T, error) {
	c.mu.Lock()
	shared, isShared := c.entries[sharedKey]
	found, ok := c.entries[key]
	drops := c.drops
	c.mu.Unlock()
	switch {
	case isShared && now.Sub(shared.at) < shared.ttl:
		return shared.value, nil
	case ok && now.Sub(found.at) < maxAge:
		return found.value, nil
	}
	value, ttl, err := load()
	if err != nil {
		return value, err
	}
	if ttl = min(ttl, maxTTL); ttl > 0 {
		key = sharedKey
	}
	if maxAge <= 0 && ttl <= 0 {
		return value, nil
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return value, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.drops == drops {
		c.addEntry(key, cachedList[T]{value, now, ttl, len(raw)})
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
