package openai

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"google.golang.org/genai"

	"agenthost/internal/modelapi"
	"agenthost/pkg/model"
)

// chatThoughts collect what must be sent back with a response's thoughts: their field, and the
// signed items of OpenRouter or LiteLLM.
type chatThoughts struct {
	field string
	items []*thoughtItem
}

// A thoughtItem is a signed item. A stream sends its text in chunks.
type thoughtItem struct {
	fields  map[string]any
	textKey string
	text    strings.Builder
}

// addReply collects the items in a message or chunk.
func (t *chatThoughts) addReply(m *chatReply) {
	text, field := m.thoughtText()
	switch {
	case len(m.ReasoningDetails) > 0:
		t.field = fieldDetails
		t.addItems(m.ReasoningDetails)
	case len(m.ThinkingBlocks) > 0:
		t.field = fieldBlocks
		t.addItems(m.ThinkingBlocks)
	case text != "" && len(t.items) == 0:
		t.field = field
	}
}

func (t *chatThoughts) addItems(items []freeObject) {
	for _, fields := range items {
		if fields == nil {
			continue
		}
		item := t.findItem(fields)
		if item == nil {
			item = &thoughtItem{fields: map[string]any{}}
			t.items = append(t.items, item)
		}
		item.mergeChunk(fields)
	}
}

// findItem returns the item that a chunk continues: the last one, if it has the same
// type and index and, without an index, is not yet signed.
func (t *chatThoughts) findItem(chunk map[string]any) *thoughtItem {
	if len(t.items) == 0 {
		return nil
	}
	last := t.items[len(t.items)-1]
	index, indexed := chunk["index"].(int64)
	lastIndex, lastIndexed := last.fields["index"].(int64)
	signed, _ := last.fields["signature"].(string)
	if chunk["type"] != last.fields["type"] || indexed != lastIndexed || index != lastIndex || !indexed && signed != "" {
		return nil
	}
	return last
}

// mergeChunk appends a chunk's text and sets its other fields.
func (i *thoughtItem) mergeChunk(chunk map[string]any) {
	for key, value := range chunk {
		text, isText := value.(string)
		switch {
		case value == nil && i.fields[key] != nil:
		case isText && slices.Contains([]string{"text", "summary", "thinking", "data"}, key):
			i.textKey = key
			i.text.WriteString(text)
		default:
			i.fields[key] = value
		}
	}
}

// markResponse sets the vendor on a complete response's thoughts, if they are sent back, and the
// signed items on the first of them.
func (t *chatThoughts) markResponse(r *model.Response, target *chatTarget) {
	if r.Content == nil || target.thoughts == modelapi.ThoughtsDrop || target.thoughts == "" && len(t.items) == 0 {
		return
	}
	if len(t.items) == 0 {
		modelapi.MarkThoughts(r, target.vendor, target.model)
		for _, p := range r.Content.Parts {
			if p.Thought && t.field != fieldReasoningContent {
				p.PartMetadata[thoughtFieldKey] = t.field
			}
		}
		return
	}
	var items []map[string]any
	for _, item := range t.items {
		fields := maps.Clone(item.fields)
		if item.textKey != "" {
			fields[item.textKey] = item.text.String()
		}
		items = append(items, fields)
	}
	raw, err := json.Marshal(items)
	if err != nil {
		return // what was decoded can be encoded
	}
	signed := &genai.Part{Thought: true, ThoughtSignature: raw, PartMetadata: modelapi.VendorMetadata(target.vendor, target.model)}
	signed.PartMetadata[thoughtFieldKey] = t.field
	if i := slices.IndexFunc(r.Content.Parts, func(p *genai.Part) bool { return p.Thought }); i >= 0 {
		signed.Text = r.Content.Parts[i].Text
		r.Content.Parts[i] = signed
		return
	}
	r.Content.Parts = slices.Insert(r.Content.Parts, 0, signed)
}
