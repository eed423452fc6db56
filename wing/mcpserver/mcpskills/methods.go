package mcpskills

import (
	"context"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// extension is the extension's name among the server's capabilities.
const extension = "io.modelcontextprotocol/skills"

// params are the parameters of each method: a place in a list, or a URI.
type params struct {
	mcp.ParamsBase
	Cursor string `json:"cursor"`
	URI    string `json:"uri"`
}

// complete has the fields that a result has from 2026-07-28 on. Skills are not shared between
// users' clients, because the host may limit who uses the app.
type complete struct {
	mcp.ResultBase
	ResultType string `json:"resultType"`
	TTLMs      int    `json:"ttlMs"`
	CacheScope string `json:"cacheScope"`
}

type listResult struct {
	complete
	Skills     []Skill `json:"skills"`
	NextCursor string  `json:"nextCursor,omitempty"`
}

type getResult struct {
	complete
	Skill Skill `json:"skill"`
}

type folderResult struct {
	complete
	Resources []*mcp.Resource `json:"resources"`
}

// Register adds the extension to a server. current returns the present catalog, nil without skills;
// clients may keep a result for a number of milliseconds.
func Register(s *mcp.Server, current func() *Catalog, ttl int) error {
	answer := complete{ResultType: "complete", TTLMs: ttl, CacheScope: "private"}
	s.AddReceivingMiddleware(func(next mcp.MethodHandler) mcp.MethodHandler {
		return func(ctx context.Context, method string, req mcp.Request) (mcp.Result, error) {
			result, err := next(ctx, method, req)
			if err == nil && current() != nil {
				declareExtension(result)
			}
			return result, err
		}
	})
	if err := addMethod(s, "skills/list", current, func(c *Catalog, p *params) (*listResult, error) {
		page, next, err := c.listPage(p.Cursor)
		return &listResult{answer, page, next}, err
	}); err != nil {
		return err
	}
	if err := addMethod(s, "skills/get", current, func(c *Catalog, p *params) (*getResult, error) {
		for _, skill := range c.skills {
			if skill.URI == p.URI {
				return &getResult{answer, skill}, nil
			}
		}
		return nil, invalidParams("unknown skill: the URI must be that of a skill's SKILL.md")
	}); err != nil {
		return err
	}
	return addMethod(s, "resources/directory/read", current, func(c *Catalog, p *params) (*folderResult, error) {
		if p.Cursor != "" {
			return nil, invalidParams("unknown cursor")
		}
		all, err := c.listFolder(p.URI)
		return &folderResult{answer, all}, err
	})
}

// declareExtension adds the extension to the server's capabilities in a result.
func declareExtension(result mcp.Result) {
	settings := map[string]any{"directoryRead": true}
	switch result := result.(type) {
	case *mcp.InitializeResult:
		result.Capabilities.AddExtension(extension, settings)
	case *mcp.DiscoverResult:
		result.Capabilities.AddExtension(extension, settings)
	}
}

// addMethod adds a method, which does not exist without skills.
func addMethod[R mcp.Result](s *mcp.Server, method string, current func() *Catalog, answer func(*Catalog, *params) (R, error)) error {
	return mcp.AddReceivingCustomMethod(s, method, func(_ context.Context, _ *mcp.ServerSession, p *params) (R, error) {
		var none R
		c := current()
		if c == nil {
			return none, &jsonrpc.Error{Code: jsonrpc.CodeMethodNotFound, Message: "method not found: the server has no skills"}
		}
		if p == nil {
			p = &params{}
		}
		result, err := answer(c, p)
		if err != nil {
			return none, err
		}
		return result, nil
	})
}
