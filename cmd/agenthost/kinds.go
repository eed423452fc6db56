package main

import (
	"slices"

	"agenthost/pkg/loader"
	"agenthost/pkg/tool"
	"agenthost/wing/mcptool"
	"agenthost/wing/openapitool"
)

// newLoader returns a loader with the kinds of this program; options may be nil.
func newLoader(opts *loader.Options) *loader.Loader { return loader.New(addKinds(opts)) }

// addKinds adds the kinds that documents can name besides the loader's own: those of
// MCP servers and OpenAPI documents. Options may be nil.
func addKinds(opts *loader.Options) *loader.Options {
	if opts == nil {
		opts = &loader.Options{}
	}
	opts.ProgramHelper = loader.DefaultProgramHelper()
	opts.ToolKinds = slices.Concat(tool.Kinds(), mcptool.Kinds(), openapitool.Kinds())
	opts.BuiltinTools = slices.Concat(tool.Builtins(), mcptool.Toolsets(), openapitool.Toolsets())
	return opts
}
