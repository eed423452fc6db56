package mcptool

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/internal/limit"
)

// The bounds on a server's list. A longer list is an error, so that nothing is lost without notice.
const (
	maxPages  = 100
	maxListed = 5000
)

// listPages collects a list's items from all its pages. key is the page member that has the items.
// A cursor that was used before ends the list, with a warning in the log. The ttl is the shortest
// of the pages'.
func listPages[T any](l *link, key string, page func(cursor string) (raw []byte, err error)) (all []*T, ttl time.Duration, err error) {
	ttl = maxTTL
	size, cursor := 0, ""
	used := map[string]bool{}
	for range maxPages {
		raw, err := page(cursor)
		if err != nil {
			return nil, 0, err
		}
		if tooLarge, ok := errors.AsType[*limit.Error](limit.MCPList.CheckJSON(raw)); ok {
			return nil, 0, limitError{fmt.Sprintf("the list of %s exceeds %s", key, tooLarge.Excess())}
		}
		found, err := decodePage[T](raw, key)
		if err != nil {
			return nil, 0, err
		}
		l.logFaults("mcp server sent a list that is not as in the protocol", found.faults)
		all = append(all, found.items...)
		ttl = min(ttl, found.ttl)
		size += len(raw)
		switch {
		case len(all) > maxListed:
			return nil, 0, limitError{fmt.Sprintf("the list of %s exceeds the limit of %d", key, maxListed)}
		case size > limit.MCPList.Bytes:
			return nil, 0, limitError{fmt.Sprintf("the list of %s exceeds the limit of %d MiB", key, limit.MCPList.Bytes>>20)}
		case found.next == "":
			return all, ttl, nil
		case used[found.next]:
			l.logFaults("mcp server repeated a list cursor; the list ends there", []string{key})
			return all, ttl, nil
		}
		cursor = found.next
		used[cursor] = true
	}
	return nil, 0, limitError{fmt.Sprintf("the list of %s exceeds the limit of %d pages", key, maxPages)}
}

// logFaults logs what a server sent that is not as in the protocol.
func (l *link) logFaults(message string, faults []string) {
	if len(faults) > 0 {
		l.logger.Warn(message, "server", l.server.displayName(), "faults", l.cleanText(strings.Join(faults[:min(len(faults), maxFaults)], "; ")), "count", len(faults))
	}
}

// listTools lists the server's tools.
func (l *link) listTools(ctx context.Context, session *mcp.ClientSession) ([]*mcp.Tool, time.Duration, error) {
	return listPages[mcp.Tool](l, "tools", func(cursor string) ([]byte, error) {
		res, err := session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		if err != nil {
			return nil, err
		}
		return unwrapResult(res.Meta), nil
	})
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
