package lsp

import (
	"context"
	"slices"
)

// A feature is a request that the server answers.
type feature struct {
	method string
	// capability is the key that announces the feature, with its options. It is empty for a method
	// that another feature announces.
	capability string
	options    any
	answer     func(context.Context, *message) (any, error)
}

// listFeatures lists the requests that the server answers, besides those of its life cycle.
func (s *Server) listFeatures() []feature {
	return []feature{
		{"textDocument/completion", "completionProvider", map[string]any{"triggerCharacters": []string{":", " ", "{", ".", "-"}}, s.atCursor(s.completeAtCursor)},
		{"textDocument/hover", "hoverProvider", true, s.hoverName},
		{"textDocument/definition", "definitionProvider", true, s.defineName},
		{"textDocument/references", "referencesProvider", true, s.referName},
		{"textDocument/documentHighlight", "documentHighlightProvider", true, s.atName(s.highlightName)},
		{"textDocument/rename", "renameProvider", map[string]any{"prepareProvider": true}, s.renameName},
		{"textDocument/prepareRename", "", nil, s.prepareRename},
		{"textDocument/documentSymbol", "documentSymbolProvider", true, s.listDocumentSymbols},
		{"workspace/symbol", "workspaceSymbolProvider", true, s.listWorkspaceSymbols},
		{"textDocument/inlayHint", "inlayHintProvider", true, s.listInlayHints},
		{"textDocument/semanticTokens/full", "semanticTokensProvider", tokenOptions(), s.listTokens},
		{"textDocument/foldingRange", "foldingRangeProvider", true, s.listFoldingRanges},
		{"textDocument/documentLink", "documentLinkProvider", map[string]any{}, s.listLinks},
		{"textDocument/formatting", "documentFormattingProvider", true, s.formatDocument},
		{"textDocument/rangeFormatting", "documentRangeFormattingProvider", true, s.formatDocument},
		{"textDocument/codeLens", "codeLensProvider", map[string]any{}, s.listLenses},
		{"textDocument/codeAction", "codeActionProvider", map[string]any{"codeActionKinds": []string{quickFix}}, s.codeActions},
	}
}

// answerInitialize negotiates the position encoding and returns the server's capabilities and version.
func (s *Server) answerInitialize(m *message) (any, error) {
	var p struct {
		Capabilities struct {
			General struct {
				PositionEncodings []encoding `json:"positionEncodings"`
			} `json:"general"`
		} `json:"capabilities"`
	}
	if len(m.Params) > 0 {
		if err := decodeParams(m, &p); err != nil {
			return nil, err
		}
	}
	if slices.Contains(p.Capabilities.General.PositionEncodings, utf8Encoding) {
		s.encoding = utf8Encoding
	}
	if err := s.readClient(m); err != nil {
		return nil, err
	}
	capabilities := map[string]any{
		"positionEncoding": s.encoding,
		"textDocumentSync": map[string]any{"openClose": true, "change": 1, "save": true},
	}
	if len(s.opts.Commands) > 0 {
		capabilities["executeCommandProvider"] = map[string]any{"commands": s.commandNames()}
	}
	for _, f := range s.listFeatures() {
		if f.capability != "" {
			capabilities[f.capability] = f.options
		}
	}
	return map[string]any{"capabilities": capabilities, "serverInfo": map[string]any{"name": "agenthost", "version": s.opts.Version}}, nil
}
