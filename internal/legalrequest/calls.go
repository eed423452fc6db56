package legalrequest

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
	"agenthost/pkg/session"
)

// An IDRule states which call IDs a service accepts.
type IDRule struct {
	Legal *regexp.Regexp
	Max   int
	// Prefix begins IDs for calls without one, and replacement IDs.
	Prefix string
	// Optional is set if calls need no ID; hashed, if replaced IDs have no prefix.
	Optional, Hashed bool
}

// isLegal reports whether the service accepts an ID.
func (r *IDRule) isLegal(id string) bool { return len(id) <= r.Max && r.Legal.MatchString(id) }

// legalID returns the n-th legal ID for an ID.
func (r *IDRule) legalID(id string, n int) string {
	if n == 0 && r.isLegal(id) {
		return id
	}
	seed := id
	if n > 0 {
		seed += "\x00" + strconv.Itoa(n)
	}
	hash := hashText(seed)
	if r.Hashed {
		return hash[:r.Max]
	}
	return r.Prefix + hash[:min(32, r.Max-len(r.Prefix))]
}

// callIDs assigns call IDs in a request. Each is unique, and depends only on the calls before it.
type callIDs struct {
	rule      *IDRule
	generated int
	used      map[string]bool
	// repeated counts how often each ID was changed: the changed IDs before that are used.
	repeated map[string]int
}

func newCallIDs(rule *IDRule) *callIDs {
	return &callIDs{rule: rule, used: map[string]bool{}, repeated: map[string]int{}}
}

// assignID returns the ID that is sent for the next call.
func (ids *callIDs) assignID(id string) string {
	if id == "" && ids.rule.Optional {
		return ""
	}
	if id == "" {
		ids.generated++
		id = ids.rule.Prefix + strconv.Itoa(ids.generated)
	}
	for n := ids.repeated[id]; ; n++ {
		if sent := ids.rule.legalID(id, n); !ids.used[sent] {
			ids.used[sent], ids.repeated[id] = true, n
			return sent
		}
	}
}

// splitRoles returns contents with the roles user and model: only the model's have calls, and only
// the user's have responses. A call by another role becomes text. It does not modify contents;
// unchanged ones are shared.
func splitRoles(contents []*genai.Content) []*genai.Content {
	if !slices.ContainsFunc(contents, hasWrongRole) {
		return contents
	}
	var split []*genai.Content
	for _, c := range contents {
		if !hasWrongRole(c) {
			split = append(split, c)
			continue
		}
		var own *genai.Content
		for _, p := range c.Parts {
			role, part := roleOfPart(c.Role, p)
			if own == nil || own.Role != role {
				own = &genai.Content{Role: role}
				split = append(split, own)
			}
			own.Parts = append(own.Parts, part)
		}
	}
	return split
}

// hasWrongRole reports whether a content has another role than user and model, or parts
// that its role cannot have.
func hasWrongRole(c *genai.Content) bool {
	if c.Role != genai.RoleUser && c.Role != genai.RoleModel {
		return true
	}
	return slices.ContainsFunc(c.Parts, func(p *genai.Part) bool {
		if c.Role == genai.RoleModel {
			return p.FunctionResponse != nil
		}
		return p.FunctionCall != nil
	})
}

// roleOfPart returns the role that may have a content's part, and the part for it.
func roleOfPart(role string, p *genai.Part) (string, *genai.Part) {
	switch {
	case p.FunctionResponse != nil:
		return genai.RoleUser, p
	case role == genai.RoleModel:
		return genai.RoleModel, p
	case p.FunctionCall != nil:
		return genai.RoleUser, &genai.Part{Text: fmt.Sprintf("%s was called with: %s", p.FunctionCall.Name, textOfJSON(p.FunctionCall.Args))}
	}
	return genai.RoleUser, p
}

// textOfJSON returns a value as JSON, or why it has none.
func textOfJSON(v any) string {
	raw, err := session.EncodeValue(v)
	if err != nil {
		return err.Error()
	}
	return string(raw)
}

// A callPairer gives calls legal names and IDs, and puts their responses right after them.
type callPairer struct {
	ids   *callIDs
	names *NameMap
	// used receives the call IDs as they are stored.
	used map[string]bool
}

// A pairedCall is a call without a response so far, as it is stored and as it is sent.
type pairedCall struct{ stored, sent *genai.FunctionCall }

// pairCalls returns contents in which each content with calls is followed by one that
// begins with their responses. A call without a response gets a placeholder: it is still
// pending, or its run was interrupted. A response without a call becomes text. Contents
// must have been split by role; they are not modified.
func (p *callPairer) pairCalls(contents []*genai.Content) []*genai.Content {
	paired := make([]*genai.Content, 0, len(contents)+1)
	for i := 0; i < len(contents); i++ {
		c := contents[i]
		if c.Role != genai.RoleModel {
			paired = append(paired, newCallIndex(nil).pairResponses(c))
			continue
		}
		c, open := p.nameCalls(c)
		paired = append(paired, c)
		if len(open) == 0 {
			continue
		}
		end := i + 1
		for end < len(contents) && contents[end].Role != genai.RoleModel {
			end++
		}
		paired = append(paired, p.answerCalls(open, contents[i+1:end])...)
		i = end - 1
	}
	return paired
}

// nameCalls returns a content with the names and IDs that are sent, and its calls.
func (p *callPairer) nameCalls(c *genai.Content) (*genai.Content, []pairedCall) {
	var calls []pairedCall
	own := c
	for i, part := range c.Parts {
		if part.FunctionCall == nil {
			continue
		}
		stored := part.FunctionCall
		if stored.ID != "" {
			p.used[stored.ID] = true
		}
		sent := stored
		if name, id := p.names.MapName(stored.Name), p.ids.assignID(stored.ID); name != stored.Name || id != stored.ID {
			call, changed := *stored, *part
			call.Name, call.ID = name, id
			sent, changed.FunctionCall = &call, &call
			if own == c {
				own = &genai.Content{Role: c.Role, Parts: slices.Clone(c.Parts)}
			}
			own.Parts[i] = &changed
		}
		calls = append(calls, pairedCall{stored, sent})
	}
	return own, calls
}

// answerCalls returns the user contents after calls: the first one begins with all responses to
// them.
func (p *callPairer) answerCalls(calls []pairedCall, contents []*genai.Content) []*genai.Content {
	open := newCallIndex(calls)
	answer := &genai.Content{Role: genai.RoleUser}
	var answered []*genai.Content
	var later []*genai.Part
	for i, c := range contents {
		c = open.pairResponses(c)
		responses := len(model.ResponsesOf(c))
		switch {
		case i == 0 && responses > 0:
			answer = c
			continue
		case responses == 0:
			answered = append(answered, c)
		case responses < len(c.Parts):
			answered = append(answered, &genai.Content{Role: c.Role, Parts: c.Parts[responses:]})
		}
		later = append(later, c.Parts[:responses]...)
	}
	later = append(later, open.listPlaceholders()...)
	return append([]*genai.Content{mergeParts(answer, later)}, answered...)
}

// mergeParts returns a content with more responses, before what else it has.
func mergeParts(c *genai.Content, responses []*genai.Part) *genai.Content {
	if len(responses) == 0 {
		return c
	}
	n := len(model.ResponsesOf(c))
	return &genai.Content{Role: c.Role, Parts: slices.Insert(slices.Clone(c.Parts), n, responses...)}
}

// A callIndex has a content's calls, and finds those that have no response so far.
type callIndex struct {
	calls []pairedCall
	// open has the open calls' indexes by what their responses have.
	open map[callKey][]int
}

// A callKey is what a response has of its call: the ID, or the name if the call has no ID.
type callKey struct{ id, name string }

func newCallKey(id, name string) callKey {
	if id != "" {
		name = ""
	}
	return callKey{id, name}
}

func newCallIndex(calls []pairedCall) *callIndex {
	o := &callIndex{calls, map[callKey][]int{}}
	for i, c := range calls {
		key := newCallKey(c.stored.ID, c.stored.Name)
		o.open[key] = append(o.open[key], i)
	}
	return o
}

// removeCall removes a response's first open call, and returns it as it is sent, or nil.
func (o *callIndex) removeCall(r *genai.FunctionResponse) *genai.FunctionCall {
	key := newCallKey(r.ID, r.Name)
	found := o.open[key]
	if len(found) == 0 {
		return nil
	}
	o.open[key] = found[1:]
	return o.calls[found[0]].sent
}

// listPlaceholders returns a response for each open call.
func (o *callIndex) listPlaceholders() []*genai.Part {
	var parts []*genai.Part
	for _, i := range slices.Sorted(slices.Values(slices.Concat(slices.Collect(maps.Values(o.open))...))) {
		parts = append(parts, &genai.Part{FunctionResponse: model.PendingResponse(o.calls[i].sent)})
	}
	return parts
}

// pairResponses returns a content with its responses to open calls first, then the rest. These
// calls are then no longer open.
func (o *callIndex) pairResponses(c *genai.Content) *genai.Content {
	if len(model.ResponsesOf(c)) == 0 {
		return c
	}
	own := &genai.Content{Role: c.Role}
	var others []*genai.Part
	for _, part := range c.Parts {
		r := part.FunctionResponse
		if r == nil {
			others = append(others, part)
			continue
		}
		call := o.removeCall(r)
		if call == nil {
			others = append(others, &genai.Part{Text: fmt.Sprintf("%s answered: %s", r.Name, textOfJSON(r.Response))})
			others = append(others, modelapi.FilesOfResponse(r)...)
			continue
		}
		if r.ID != call.ID || r.Name != call.Name {
			response, changed := *r, *part
			response.ID, response.Name = call.ID, call.Name
			changed.FunctionResponse = &response
			part = &changed
		}
		own.Parts = append(own.Parts, part)
	}
	own.Parts = append(own.Parts, others...)
	if slices.Equal(own.Parts, c.Parts) {
		return c
	}
	return own
}

// A turnRule is which roles may follow each other.
type turnRule int

// The turn rules.
const (
	TurnsAny       turnRule = iota // roles follow each other in any order
	TurnsOfModel                   // the user begins, and consecutive model contents are one
	TurnsAlternate                 // the user begins, and roles alternate
)

// orderTurns returns contents whose roles follow each other as the service requires. It
// does not modify contents.
func (r turnRule) orderTurns(contents []*genai.Content) []*genai.Content {
	if r == TurnsAny {
		return contents
	}
	ordered := make([]*genai.Content, 0, len(contents)+1)
	merged := false // whether the last content was made here
	for _, c := range contents {
		last := len(ordered) - 1
		if last < 0 && c.Role == genai.RoleModel {
			ordered = append(ordered, model.UserText(modelapi.BeginText))
		} else if last >= 0 && ordered[last].Role == c.Role && (r == TurnsAlternate || c.Role == genai.RoleModel) {
			if !merged {
				ordered[last], merged = &genai.Content{Role: c.Role, Parts: slices.Clone(ordered[last].Parts)}, true
			}
			ordered[last].Parts = append(ordered[last].Parts, c.Parts...)
			continue
		}
		merged = false
		ordered = append(ordered, c)
	}
	return ordered
}
