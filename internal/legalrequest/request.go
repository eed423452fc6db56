// Package legalrequest changes requests to what a service accepts.
//
// Services reject a whole request for one odd thing in it: a tool name with a dot, a call
// ID that appears twice, an empty image. Stored events are sent with every later
// turn, so one such event would end the session. Each request therefore passes
// through [New], which changes what the service does not take:
//
//   - tool names are mapped to legal ones, and mapped back in responses (names.go);
//   - each call gets a unique ID and is followed by its response (calls.go);
//   - files that the service does not take become a note that the model reads (parts.go);
//   - parameter schemas become plain objects at their root (schema.go).
//
// Legal request parts stay as they are. The result for a content depends only on the tools and on
// the contents before it, so a growing conversation's beginning stays the same and prompt caches
// work.
package legalrequest

import (
	"context"
	"regexp"
	"slices"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
)

// Rules are what a service accepts in a request.
type Rules struct {
	Names NameRule
	Ids   IDRule
	Turns turnRule
	Media MediaRule
	// BlankText is set if texts may have only white space.
	BlankText bool
}

// The file types that several services accept.
var (
	WebImages = []string{"image/png", "image/jpeg", "image/gif", "image/webp"}
	TextTypes = []string{"text/*", "application/json"}
)

// AnyID matches all IDs but the empty one.
var AnyID = regexp.MustCompile(`^(?s:.+)$`)

// A Request is a request that the service accepts.
type Request struct {
	*model.Request
	names *NameMap
	// used are the call IDs in the conversation, as they are stored.
	used map[string]bool
}

// New returns a request that a service accepts. vendor is the vendor whose signatures the service
// verifies. It does not modify req; what is legal is shared. With a context from [WithoutRules] it
// is req itself.
func New(ctx context.Context, rules *Rules, vendor string, req *model.Request) *Request {
	own := *req
	l := &Request{Request: &own, names: NewNameMap(&rules.Names), used: map[string]bool{}}
	if ctx.Value(withoutRules{}) == nil {
		own.Config = l.legalConfig(req.Config)
		own.Contents = rules.LegalContents(vendor, req.Contents, l.names, l.used)
	}
	return l
}

type withoutRules struct{}

// WithoutRules returns a context whose requests stay as they are: the control when tests check the
// rules.
func WithoutRules(ctx context.Context) context.Context {
	return context.WithValue(ctx, withoutRules{}, true)
}

// LegalContents returns a conversation that the service accepts. used receives its call IDs, as
// they are stored.
func (r *Rules) LegalContents(vendor string, contents []*genai.Content, names *NameMap, used map[string]bool) []*genai.Content {
	contents = r.legalParts(modelapi.WithoutForeignParts(contents, vendor))
	contents = splitRoles(modelapi.DropEmptyContents(contents))
	pairer := &callPairer{ids: newCallIDs(&r.Ids), names: names, used: used}
	return r.Turns.orderTurns(pairer.pairCalls(contents))
}

// legalConfig returns the config with legal declarations.
func (l *Request) legalConfig(c *genai.GenerateContentConfig) *genai.GenerateContentConfig {
	if c == nil || len(c.Tools) == 0 && c.ToolConfig == nil {
		return c
	}
	own := *c
	own.Tools = LegalTools(l.names, c.Tools)
	if c.ToolConfig != nil && c.ToolConfig.FunctionCallingConfig != nil && len(c.ToolConfig.FunctionCallingConfig.AllowedFunctionNames) > 0 {
		config, calling := *c.ToolConfig, *c.ToolConfig.FunctionCallingConfig
		calling.AllowedFunctionNames = nil
		for _, name := range c.ToolConfig.FunctionCallingConfig.AllowedFunctionNames {
			calling.AllowedFunctionNames = append(calling.AllowedFunctionNames, l.names.MapName(name))
		}
		config.FunctionCallingConfig = &calling
		own.ToolConfig = &config
	}
	return &own
}

// LegalTools returns the tools with legal names and schemas. If two functions share a name it keeps
// the first: services reject both.
func LegalTools(names *NameMap, tools []*genai.Tool) []*genai.Tool {
	for _, t := range tools {
		if t != nil {
			names.declareLegal(t.FunctionDeclarations)
		}
	}
	seen := map[string]bool{}
	own := slices.Clone(tools)
	for i, t := range tools {
		if t == nil || len(t.FunctionDeclarations) == 0 {
			continue
		}
		changed := false
		var declared []*genai.FunctionDeclaration
		for _, d := range t.FunctionDeclarations {
			if d == nil || seen[d.Name] {
				changed = true
				continue
			}
			seen[d.Name] = true
			legal := legalDeclaration(names, d)
			changed = changed || legal != d
			declared = append(declared, legal)
		}
		if changed {
			bare := *t
			bare.FunctionDeclarations = declared
			own[i] = &bare
		}
	}
	return own
}

// legalDeclaration returns a declaration with a legal name and root; d itself if it has
// both.
func legalDeclaration(names *NameMap, d *genai.FunctionDeclaration) *genai.FunctionDeclaration {
	name := names.MapName(d.Name)
	schema := names.rule.describeParameters(d, plainParameters(d))
	if name == d.Name && schema == nil {
		return d
	}
	own := *d
	own.Name = name
	if schema != nil {
		own.Parameters, own.ParametersJsonSchema = nil, schema
	}
	return &own
}

// RestoreCalls returns a function that yields responses with the declared tool names. A call whose
// ID the conversation or the response already has loses it, so that the runtime assigns one:
// services number calls by turn, or repeat an ID.
func (l *Request) RestoreCalls(yield func(*model.Response, error) bool) func(*model.Response, error) bool {
	return func(r *model.Response, err error) bool { return yield(l.restoreResponse(r), err) }
}

func (l *Request) restoreResponse(r *model.Response) *model.Response {
	if r == nil || len(model.CallsOf(r.Content)) == 0 {
		return r
	}
	own, content := *r, *r.Content
	content.Parts = slices.Clone(content.Parts)
	seen := map[string]bool{}
	for i, p := range content.Parts {
		if p == nil || p.FunctionCall == nil {
			continue
		}
		part, call := *p, *p.FunctionCall
		call.Name = l.names.RestoreName(call.Name)
		if l.used[call.ID] || seen[call.ID] {
			call.ID = ""
		}
		seen[call.ID] = true
		part.FunctionCall = &call
		content.Parts[i] = &part
	}
	own.Content = &content
	return &own
}
