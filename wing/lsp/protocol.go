package lsp

import (
	"regexp"
	"strings"
)

// The wire types for the supported part of the protocol.
type (
	position struct {
		Line      int `json:"line"`
		Character int `json:"character"`
	}
	textRange struct {
		Start position `json:"start"`
		End   position `json:"end"`
	}
	location struct {
		URI   string    `json:"uri"`
		Range textRange `json:"range"`
	}
	document struct {
		URI     string `json:"uri"`
		Text    string `json:"text"`
		Version int    `json:"version"`
	}
	// openParams are the parameters for didOpen, didSave and didClose.
	openParams struct {
		Document document `json:"textDocument"`
	}
	changeParams struct {
		Document document `json:"textDocument"`
		Changes  []struct {
			Text string `json:"text"`
		} `json:"contentChanges"`
	}
	watchedParams struct {
		Changes []struct {
			URI string `json:"uri"`
		} `json:"changes"`
	}
	// positionParams are the parameters for completion, hover and definition.
	positionParams struct {
		Document document `json:"textDocument"`
		Position position `json:"position"`
	}
	codeActionParams struct {
		Document document  `json:"textDocument"`
		Range    textRange `json:"range"`
		Context  struct {
			Only []string `json:"only"`
		} `json:"context"`
	}
	codeAction struct {
		Title       string        `json:"title"`
		Kind        string        `json:"kind"`
		Diagnostics []diagnostic  `json:"diagnostics"`
		IsPreferred bool          `json:"isPreferred"`
		Edit        workspaceEdit `json:"edit"`
	}
	workspaceEdit struct {
		Changes map[string][]textEdit `json:"changes"`
	}
	textEdit struct {
		Range   textRange `json:"range"`
		NewText string    `json:"newText"`
	}
	diagnostic struct {
		Range    textRange `json:"range"`
		Severity int       `json:"severity"`
		Code     string    `json:"code"`
		Source   string    `json:"source"`
		Message  string    `json:"message"`
	}
	publishParams struct {
		URI         string       `json:"uri"`
		Diagnostics []diagnostic `json:"diagnostics"`
	}
	completionItem struct {
		Label         string  `json:"label"`
		Kind          int     `json:"kind"`
		Detail        string  `json:"detail,omitempty"`
		Documentation *markup `json:"documentation,omitempty"`
		InsertText    string  `json:"insertText,omitempty"`
		SortText      string  `json:"sortText,omitempty"`
		// TextEdit, if set, is what the item changes instead of the word at the cursor.
		TextEdit *textEdit `json:"textEdit,omitempty"`
	}
	markup struct {
		Kind  string `json:"kind"`
		Value string `json:"value"`
	}
	hoverResult struct {
		Contents markup `json:"contents"`
	}
)

// The protocol's completion item kinds.
const (
	kindProperty = 10
	kindValue    = 12
	kindFile     = 17
	kindName     = 18
	kindVariable = 6
)

// quickFix is the code action kind for fixes.
const quickFix = "quickfix"

// The protocol's diagnostic severities.
const (
	severityError   = 1
	severityWarning = 2
)

// newMarkdown returns text for editors. Links to pages of the documentation become their text.
func newMarkdown(text string) *markup {
	return &markup{"markdown", pageLink.ReplaceAllString(text, "$1")}
}

// pageLink matches a link to a page next to the one that the text was written for.
var pageLink = regexp.MustCompile(`\[([^\]]*)\]\([\w./#-]*\.md[^)]*\)`)

// plainText returns Markdown without links and marks.
func plainText(markdown string) string {
	return strings.NewReplacer("`", "", "**", "").Replace(pageLink.ReplaceAllString(markdown, "$1"))
}
