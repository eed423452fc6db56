package main

import (
	"agenthost/pkg/loader"
	"agenthost/pkg/tool"
	"agenthost/pkg/tool/mcptool"
)

// newLoader returns a loader with the kinds of this program; options may be nil.
func newLoader(opts *loader.Options) *loader.Loader { return loader.New(addKinds(opts)) }

// addKinds adds the kinds that documents can name besides the loader's own: those of
// MCP servers. Options may be nil.
func addKinds(opts *loader.Options) *loader.Options {
	if opts == nil {
		opts = &loader.Options{}
	}
	opts.ProgramHelper = loader.DefaultProgramHelper()
	opts.ToolKinds = append(tool.Kinds(), mcptool.Kinds()...)
	opts.BuiltinTools = append(tool.Builtins(), mcptool.Toolsets()...)
	return opts
}
