package vertexstore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"time"

	"google.golang.org/genai"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store"
)

// A MemoryBank is a [store.MemoryService] in a reasoning engine's Memory Bank: the service's model
// extracts facts from events, merges them with the user's stored facts, and finds them by meaning
// (adk-python memory/vertex_ai_memory_bank_service.py).
type MemoryBank struct {
	client *client
	// generates adds events by memories:generate and waits for its result; otherwise
	// memories:ingestEvents takes them, and extracts facts later.
	generates bool
	// findsUserScope also finds memories whose scope is only the user, as adk-go writes them.
	findsUserScope bool
}

var (
	_ store.MemoryService  = (*MemoryBank)(nil)
	_ store.ProfileService = (*MemoryBank)(nil)
)

const bankParameters = "agentengine: memory URLs have the parameters add=generate and scope=user"

// OpenMemoryBank returns an engine's Memory Bank, by a URL such as agentengine://123. The parameter
// add=generate waits until memories from added events exist; scope=user also finds a user's
// memories from all apps. It reads from the engine once, as [Open] does.
func OpenMemoryBank(ctx context.Context, rawURL string, o *Options) (*MemoryBank, error) {
	if o == nil {
		o = &Options{}
	}
	name, parameters, _ := strings.Cut(rawURL, "?")
	b := &MemoryBank{}
	if err := b.readParameters(parameters); err != nil {
		return nil, err
	}
	var err error
	if b.client, err = newClient(engineKind, name, o); err != nil {
		return nil, err
	}
	return b, b.Ping(ctx)
}

func (b *MemoryBank) readParameters(text string) error {
	values, err := url.ParseQuery(text)
	if err != nil {
		return errors.New(bankParameters)
	}
	for name, all := range values {
		switch value := all[len(all)-1]; {
		case name == "add" && (value == "generate" || value == "ingest"):
			b.generates = value == "generate"
		case name == "scope" && (value == "user" || value == "app"):
			b.findsUserScope = value == "user"
		default:
			return fmt.Errorf("unknown parameter %s=%s: %s", name, value, bankParameters)
		}
	}
	return nil
}

// Ping checks that the engine exists and that its memories can be read.
func (b *MemoryBank) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	_, err := b.client.sendOnce(ctx, &call{method: http.MethodGet, path: b.memoriesPath(""), query: url.Values{"pageSize": {"1"}}}, nil, nil)
	return b.describeError(err)
}

// Close implements [store.MemoryService].
func (b *MemoryBank) Close() error {
	b.client.http.CloseIdleConnections()
	return nil
}

func (b *MemoryBank) memoriesPath(verb string) string {
	return b.client.resourceName() + "/memories" + verb
}

func (b *MemoryBank) describeError(err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("memories of %s: %w", b.client.resourceName(), err)
}

// A memoryScope is the scope for memories: the service compares it exactly.
type memoryScope map[string]string

func newMemoryScope(who store.UserKey) (memoryScope, error) {
	for _, value := range []string{who.App, who.User} {
		if strings.Contains(value, "*") {
			return nil, fmt.Errorf("%q contains *, which the Memory Bank does not allow in app and user names: %w", value, session.ErrInvalid)
		}
	}
	return memoryScope{"app_name": who.App, "user_id": who.User}, nil
}

// A bankEvent is an event in a request.
type bankEvent struct {
	Content any    `json:"content"`
	ID      string `json:"event_id,omitempty"`
	Time    string `json:"event_time,omitempty"`
}

// maxBankRequest is the approximate request size with events.
const maxBankRequest = 4 << 20

// AddEvents adds the events' content. The service recognizes an event that was added before by its
// ID.
func (b *MemoryBank) AddEvents(ctx context.Context, key session.Key, events []*session.Event) error {
	scope, err := newMemoryScope(store.UserKey{App: key.App, User: key.User})
	if err != nil {
		return err
	}
	var batch []bankEvent
	size := 0
	for _, ev := range events {
		one, bytes, err := newBankEvent(ev)
		if err != nil {
			return err
		}
		if one == nil {
			continue
		}
		if size > 0 && size+bytes > maxBankRequest {
			if err := b.sendEvents(ctx, scope, batch); err != nil {
				return err
			}
			batch, size = nil, 0
		}
		batch, size = append(batch, *one), size+bytes
	}
	if len(batch) == 0 {
		return nil
	}
	return b.sendEvents(ctx, scope, batch)
}

// newBankEvent returns the event as the service takes it, and its size; nil if it has
// nothing to remember. Requests for credentials are left out.
func newBankEvent(ev *session.Event) (*bankEvent, int, error) {
	content := *ev.Content
	content.Parts = slices.DeleteFunc(slices.Clone(content.Parts), func(p *genai.Part) bool {
		return p == nil || p.FunctionCall != nil && isCredentialRequest(p.FunctionCall.Name) ||
			p.FunctionResponse != nil && isCredentialRequest(p.FunctionResponse.Name)
	})
	if len(content.Parts) == 0 {
		return nil, 0, nil
	}
	text, err := session.EncodeContent(&content)
	if err != nil {
		return nil, 0, fmt.Errorf("event %s: %w", ev.ID, err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, 0, err
	}
	selected := selectColumns(fields)
	if selected == nil {
		return nil, 0, nil
	}
	return &bankEvent{selected, ev.ID, ev.Timestamp.UTC().Format(time.RFC3339Nano)}, len(text), nil
}

func isCredentialRequest(name string) bool { return name == "adk_request_credential" }

func (b *MemoryBank) sendEvents(ctx context.Context, scope memoryScope, events []bankEvent) error {
	if !b.generates {
		body := map[string]any{"scope": scope, "directContentsSource": map[string]any{"events": events}}
		return b.describeError(b.client.sendCall(ctx, &call{method: http.MethodPost, path: b.memoriesPath(":ingestEvents"), body: body}, nil))
	}
	for i := range events {
		events[i].ID, events[i].Time = "", "" // memories:generate has no such fields
	}
	return b.runOperation(ctx, ":generate", map[string]any{"scope": scope, "directContentsSource": map[string]any{"events": events}})
}

// runOperation sends a request and waits until it is carried out.
func (b *MemoryBank) runOperation(ctx context.Context, verb string, body any) error {
	var op operation
	err := b.client.sendCall(ctx, &call{method: http.MethodPost, path: b.memoriesPath(verb), body: body, once: true}, &op)
	if err == nil {
		err = b.client.waitOperation(ctx, &op)
	}
	return b.describeError(err)
}

// consolidateKey is a memory's metadata that the service merges with others, instead of storing it
// as it is (adk-python add_memory).
const consolidateKey = "enable_consolidation"

// maxDirectMemories is how many memories a merge request may have.
const maxDirectMemories = 5

// AddMemories adds facts, with their custom metadata. The service merges those with
// enable_consolidation: true.
func (b *MemoryBank) AddMemories(ctx context.Context, who store.UserKey, memories []*session.Memory) error {
	scope, err := newMemoryScope(who)
	if err != nil {
		return err
	}
	var merged []map[string]any
	for _, mem := range memories {
		fact := factOf(mem)
		merges, isBool := mem.CustomMetadata[consolidateKey].(bool)
		if _, ok := mem.CustomMetadata[consolidateKey]; ok && !isBool {
			return fmt.Errorf("%s of memory %q must be true or false: %w", consolidateKey, mem.ID, session.ErrInvalid)
		}
		if merges {
			merged = append(merged, map[string]any{"fact": fact})
			continue
		}
		body := map[string]any{"fact": fact, "scope": scope}
		if metadata := encodeMetadata(mem.CustomMetadata); len(metadata) > 0 {
			body["metadata"] = metadata
		}
		if err := b.runOperation(ctx, "", body); err != nil {
			return err
		}
	}
	for batch := range slices.Chunk(merged, maxDirectMemories) {
		body := map[string]any{"scope": scope, "directMemoriesSource": map[string]any{"directMemories": batch}}
		if err := b.runOperation(ctx, ":generate", body); err != nil {
			return err
		}
	}
	return nil
}

// factOf returns a memory's texts in lines.
func factOf(mem *session.Memory) string {
	var lines []string
	for _, p := range mem.Content.Parts {
		if p == nil || p.Thought {
			continue
		}
		if text := strings.TrimSpace(p.Text); text != "" {
			lines = append(lines, text)
		}
	}
	return strings.Join(lines, "\n")
}

// encodeMetadata returns metadata in the service's types.
func encodeMetadata(metadata map[string]any) map[string]any {
	all := map[string]any{}
	for name, value := range metadata {
		switch value := value.(type) {
		case nil:
		case bool:
			if name != consolidateKey {
				all[name] = map[string]any{"boolValue": value}
			}
		case float64, int, int64:
			all[name] = map[string]any{"doubleValue": value}
		case string:
			all[name] = map[string]any{"stringValue": value}
		default:
			text, err := json.Marshal(value)
			if err == nil {
				all[name] = map[string]any{"stringValue": string(text)}
			}
		}
	}
	return all
}

// maxTopK is the service's limit on search results.
const maxTopK = 100

// A foundMemory is a search result.
type foundMemory struct {
	Memory struct {
		Name, Fact string
		UpdateTime time.Time
	}
	Distance float64
}

// FindMemories returns the facts that are nearest in meaning. It ignores NotSession.
func (b *MemoryBank) FindMemories(ctx context.Context, who store.UserKey, q store.MemoryQuery) ([]*session.Memory, error) {
	scope, err := newMemoryScope(who)
	if err != nil {
		return nil, err
	}
	limit := min(q.Limit, maxTopK)
	scopes := []memoryScope{scope}
	if b.findsUserScope {
		scopes = append(scopes, memoryScope{"user_id": who.User})
	}
	var found []foundMemory
	for _, scope := range scopes {
		body := map[string]any{"scope": scope, "similaritySearchParams": map[string]any{"searchQuery": q.Text, "topK": limit}}
		var answer struct{ RetrievedMemories []foundMemory }
		if err := b.client.sendCall(ctx, &call{method: http.MethodPost, path: b.memoriesPath(":retrieve"), body: body}, &answer); err != nil {
			return nil, b.describeError(err)
		}
		found = append(found, answer.RetrievedMemories...)
	}
	found = slices.DeleteFunc(found, func(f foundMemory) bool { return strings.TrimSpace(f.Memory.Fact) == "" })
	slices.SortStableFunc(found, func(x, y foundMemory) int {
		switch {
		case x.Distance < y.Distance:
			return -1
		case x.Distance > y.Distance:
			return 1
		}
		return 0
	})
	memories := make([]*session.Memory, 0, limit)
	for _, f := range found[:min(len(found), limit)] {
		memories = append(memories, &session.Memory{
			Content: model.UserText(f.Memory.Fact), Author: session.UserAuthor, Timestamp: f.Memory.UpdateTime, ID: path.Base(f.Memory.Name),
		})
	}
	return memories, nil
}

// maxProfiles bounds the JSON for a user's profiles.
const maxProfiles = 1 << 20

// LoadProfiles returns a user's profiles by their schema; see [store.ProfileService].
func (b *MemoryBank) LoadProfiles(ctx context.Context, who store.UserKey) (map[string]any, error) {
	scope, err := newMemoryScope(who)
	if err != nil {
		return nil, err
	}
	var answer struct {
		Profiles map[string]struct{ Profile json.RawMessage }
	}
	body := map[string]any{"scope": scope}
	if err := b.client.sendCall(ctx, &call{method: http.MethodPost, path: b.memoriesPath(":retrieveProfiles"), body: body}, &answer); err != nil {
		return nil, b.describeError(err)
	}
	profiles, size := map[string]any{}, 0
	for schema, p := range answer.Profiles {
		if size += len(p.Profile); size > maxProfiles {
			return nil, b.describeError(errors.New("the user's profiles exceed the limit of 1 MiB"))
		}
		v, err := session.DecodeValue(p.Profile)
		if err != nil {
			return nil, b.describeError(fmt.Errorf("profile %s is not JSON: %w", schema, err))
		}
		profiles[schema] = v
	}
	return profiles, nil
}

// DeleteSession always fails: a fact may be from several sessions.
func (b *MemoryBank) DeleteSession(context.Context, session.Key) error {
	return fmt.Errorf("the Memory Bank merges session memories: delete all the user's memories: %w", session.ErrInvalid)
}

// deletePage is how many memories are listed at once for deletion.
const deletePage = 100

// DeleteUser deletes a user's memories in an app, one by one.
func (b *MemoryBank) DeleteUser(ctx context.Context, who store.UserKey) error {
	scope, err := newMemoryScope(who)
	if err != nil {
		return err
	}
	deleted := map[string]bool{}
	for {
		body := map[string]any{"scope": scope, "simpleRetrievalParams": map[string]any{"pageSize": deletePage}}
		var answer struct{ RetrievedMemories []foundMemory }
		if err := b.client.sendCall(ctx, &call{method: http.MethodPost, path: b.memoriesPath(":retrieve"), body: body}, &answer); err != nil {
			return b.describeError(err)
		}
		progress := false
		for _, f := range answer.RetrievedMemories {
			id := path.Base(f.Memory.Name)
			if deleted[id] {
				continue
			}
			if !resourceToken.MatchString(id) {
				return b.describeError(fmt.Errorf("a memory has the invalid name %q", f.Memory.Name))
			}
			if err := b.deleteMemory(ctx, id); err != nil {
				return b.describeError(err)
			}
			deleted[id], progress = true, true
		}
		if !progress {
			return nil
		}
	}
}

func (b *MemoryBank) deleteMemory(ctx context.Context, id string) error {
	var op operation
	err := b.client.sendCall(ctx, &call{method: http.MethodDelete, path: b.memoriesPath("/" + id)}, &op)
	if hasCode(err, http.StatusNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	return b.client.waitOperation(ctx, &op)
}
