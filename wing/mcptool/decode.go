package mcptool

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"agenthost/pkg/session"
)

// Servers send results that are not quite the protocol's: unknown content types, a string instead
// of a list, "true" instead of true. The functions in this file keep what can be kept, and return
// the faults for the model or the log. Integers keep their digits.

// A callResult is a call's result.
type callResult struct {
	content    []any
	structured any
	meta       any
	isError    bool
	// faults describe what was not as in the protocol.
	faults []string
}

// maxContent limits the items in a result or a resource: a two-byte item becomes hundreds in
// memory, and 26 in the stored event.
const maxContent = 10_000

// decodeCallResult decodes a call's result. It fails only for a result that is not JSON, or has too
// many items.
func decodeCallResult(raw []byte) (*callResult, error) {
	v, err := session.DecodeValue(raw)
	if err != nil {
		return nil, err
	}
	r := &callResult{content: []any{}}
	fields, ok := v.(map[string]any)
	if !ok {
		r.addFault("the result is %s and not an object", describeType(v))
		r.addContent(v)
		return r, nil
	}
	switch content := fields["content"].(type) {
	case nil:
	case []any:
		if len(content) > maxContent {
			return nil, fmt.Errorf("its content has %d items, and the limit is %d", len(content), maxContent)
		}
		for i, item := range content {
			r.addItem(fmt.Sprintf("content[%d]", i), item)
		}
	default:
		r.addFault("content is %s and not a list", describeType(content))
		r.addContent(content)
	}
	r.structured, r.meta = fields["structuredContent"], fields["_meta"]
	if given, ok := fields["isError"]; ok {
		is, isBool := given.(bool)
		if !isBool && given != nil {
			r.addFault("isError is %s and not a boolean", describeType(given))
			is, _ = strconv.ParseBool(strings.ToLower(textOf(given)))
		}
		r.isError = is
	}
	return r, nil
}

// addFault adds a fault.
func (r *callResult) addFault(format string, args ...any) {
	r.faults = append(r.faults, fmt.Sprintf(format, args...))
}

// maxFaults bounds the faults in one result.
const maxFaults = 20

// listFaults returns the faults for the model.
func (r *callResult) listFaults() []any {
	list := make([]any, 0, min(len(r.faults), maxFaults+1))
	for i, fault := range r.faults {
		if i == maxFaults {
			return append(list, fmt.Sprintf("and %d more", len(r.faults)-i))
		}
		list = append(list, fault)
	}
	return list
}

// addContent adds a value instead of a content list: an object with a type as it is, any other as
// text.
func (r *callResult) addContent(v any) {
	if item, ok := v.(map[string]any); ok && item["type"] != nil {
		r.addItem("content", item)
		return
	}
	if v != nil {
		r.content = append(r.content, newText(v))
	}
}

// addItem adds one content item. An unknown type stays as it is.
func (r *callResult) addItem(place string, v any) {
	item, ok := v.(map[string]any)
	if !ok {
		r.addFault("%s is %s and not an object", place, describeType(v))
		r.addContent(v)
		return
	}
	switch kind := item["type"]; kind {
	case "text":
		if _, ok := item["text"].(string); !ok {
			r.addFault("text of %s is %s and not a string", place, describeType(item["text"]))
			item["text"] = textOf(item["text"])
		}
	case "image", "audio":
		if err := repairBase64(item, "data"); err != nil {
			r.addFault("%s is left out: %s", place, err)
			item = newText(fmt.Sprintf("(%v of type %s, which cannot be read: %s)", kind, textOf(item["mimeType"]), err))
		}
	case "resource":
		resource, ok := item["resource"].(map[string]any)
		if !ok {
			r.addFault("resource of %s is %s and not an object", place, describeType(item["resource"]))
		} else if _, has := resource["blob"]; has {
			if err := repairBase64(resource, "blob"); err != nil {
				r.addFault("blob of %s is left out: %s", place, err)
				delete(resource, "blob")
			}
		}
	case "resource_link":
	default:
		r.addFault("%s has the unknown type %s", place, textOf(kind))
	}
	r.content = append(r.content, item)
}

// newText returns an item with a value as text.
func newText(v any) map[string]any { return map[string]any{"type": "text", "text": textOf(v)} }

// textOf returns a string as it is, and any other value as JSON.
func textOf(v any) string {
	if text, ok := v.(string); ok {
		return text
	}
	raw, err := json.Marshal(v)
	if err != nil { // the value was decoded from JSON
		return fmt.Sprint(v)
	}
	return string(raw)
}

// repairBase64 converts a member to base64 in the standard alphabet with padding, from any usual
// form.
func repairBase64(item map[string]any, key string) error {
	text, ok := item[key].(string)
	if !ok {
		return fmt.Errorf("%s is %s and not a string", key, describeType(item[key]))
	}
	if _, body, ok := strings.Cut(text, ";base64,"); ok && strings.HasPrefix(text, "data:") {
		text = body
	}
	data, err := decodeBase64(text)
	if err != nil {
		return fmt.Errorf("%s is not valid base64", key)
	}
	item[key] = base64.StdEncoding.EncodeToString(data)
	return nil
}

// decodeBase64 decodes both alphabets, with or without padding and line feeds.
func decodeBase64(text string) ([]byte, error) {
	text = strings.NewReplacer("-", "+", "_", "/", "\n", "", "\r", "", " ", "").Replace(text)
	return base64.RawStdEncoding.DecodeString(strings.TrimRight(text, "="))
}

// describeType returns a value's JSON type with an article.
func describeType(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case string:
		return "a string"
	case bool:
		return "a boolean"
	case []any:
		return "a list"
	case map[string]any:
		return "an object"
	}
	return "a number"
}

// joinTexts joins a content's texts.
func (r *callResult) joinTexts() string {
	var texts []string
	for _, v := range r.content {
		if item, ok := v.(map[string]any); ok && item["type"] == "text" {
			texts = append(texts, textOf(item["text"]))
		}
	}
	if len(texts) == 0 {
		return "the server returned an error without a message"
	}
	return strings.Join(texts, "\n")
}

// A listPage is one list page.
type listPage[T any] struct {
	items []T
	next  string
	// ttl is how long the page may be used again, 0 without one.
	ttl    time.Duration
	faults []string
}

// decodePage decodes a page whose items are the member key. It leaves out items that cannot be
// read, and in other items the fields that cannot be read.
func decodePage[T any](raw []byte, key string) (*listPage[*T], error) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil {
		fields = map[string]json.RawMessage{key: raw} // the list itself
	}
	page := &listPage[*T]{}
	if next := fields["nextCursor"]; !isNull(next) && json.Unmarshal(next, &page.next) != nil {
		page.next = string(next)
	}
	page.ttl = decodeTTL(fields["ttlMs"])
	var items []json.RawMessage
	if list := fields[key]; !isNull(list) {
		var err error
		switch items, err = splitList(list, maxListed); {
		case errors.Is(err, errLongList):
			return nil, limitError{fmt.Sprintf("the list of %s exceeds the limit of %d", key, maxListed)}
		case err != nil:
			return nil, limitError{fmt.Sprintf("the list of %s cannot be read: %s is not a list", key, key)}
		}
	}
	for i, item := range items {
		one, faults := decodeItem[T](item)
		if one != nil {
			page.items = append(page.items, one)
		}
		for _, fault := range faults {
			page.faults = append(page.faults, fmt.Sprintf("%s[%d]: %s", key, i, fault))
		}
	}
	return page, nil
}

// decodeTTL returns a result's ttlMs, at most maxTTL. It is 0 for a value that cannot be read.
func decodeTTL(raw json.RawMessage) time.Duration {
	var ms float64
	if isNull(raw) || json.Unmarshal(raw, &ms) != nil || !(ms > 0) {
		return 0
	}
	return time.Duration(min(ms, float64(maxTTL.Milliseconds()))) * time.Millisecond
}

// errLongList reports a list with more elements than its limit.
var errLongList = errors.New("the list is too long")

// splitList returns a JSON list's elements, at most limit. It reads no further than that.
func splitList(raw []byte, limit int) ([]json.RawMessage, error) {
	if raw[0] != '[' {
		return nil, errors.New("it is not a list")
	}
	var items []json.RawMessage
	list := json.NewDecoder(bytes.NewReader(raw))
	if _, err := list.Token(); err != nil {
		return nil, err
	}
	for list.More() {
		if len(items) == limit {
			return nil, errLongList
		}
		var item json.RawMessage
		if err := list.Decode(&item); err != nil {
			return nil, err
		}
		items = append(items, item)
	}
	if _, err := list.Token(); err != nil {
		return nil, err
	}
	if _, err := list.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("text after the list")
	}
	return items, nil
}

// decodeItem decodes a list entry. It needs a name.
func decodeItem[T any](raw json.RawMessage) (*T, []string) {
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(raw, &fields); err != nil || fields == nil {
		return nil, []string{"it is left out, because it is not an object"}
	}
	var name string
	if err := json.Unmarshal(fields["name"], &name); err != nil || name == "" {
		return nil, []string{"it is left out, because it has no name"}
	}
	item := new(T)
	if json.Unmarshal(raw, item) == nil {
		return item, nil
	}
	item = new(T)
	var faults []string
	for key, value := range fields {
		one := map[string]json.RawMessage{key: value}
		if before := *item; json.Unmarshal(encodeMembers(one), item) != nil {
			*item = before
			faults = append(faults, fmt.Sprintf("%s cannot be read and is ignored", key))
		}
	}
	slices.Sort(faults)
	return item, faults
}

// decodeResource decodes a resource's contents; their texts and blobs are those that can be read.
func decodeResource(raw []byte) ([]*mcp.ResourceContents, []string, error) {
	v, err := session.DecodeValue(raw)
	if err != nil {
		return nil, nil, err
	}
	fields, _ := v.(map[string]any)
	list, ok := fields["contents"].([]any)
	if !ok {
		if fields["contents"] == nil {
			return nil, nil, errors.New("the result has no contents")
		}
		list = []any{fields["contents"]}
	}
	if len(list) > maxContent {
		return nil, nil, fmt.Errorf("the result has %d contents, and the limit is %d", len(list), maxContent)
	}
	var contents []*mcp.ResourceContents
	var faults []string
	for i, v := range list {
		item, ok := v.(map[string]any)
		if !ok {
			contents = append(contents, &mcp.ResourceContents{Text: textOf(v)})
			continue
		}
		one := &mcp.ResourceContents{}
		one.URI, _ = item["uri"].(string)
		one.MIMEType, _ = item["mimeType"].(string)
		if text := item["text"]; text != nil {
			one.Text = textOf(text)
		}
		if blob := item["blob"]; blob != nil {
			if one.Blob, err = decodeBase64(textOf(blob)); err != nil {
				faults = append(faults, fmt.Sprintf("contents[%d]: blob is not valid base64", i))
				one.Text = "not available: its blob is not valid base64"
			}
		}
		contents = append(contents, one)
	}
	return contents, faults, nil
}

// decodePrompt returns the texts in a prompt's messages.
func decodePrompt(raw []byte) (string, error) {
	v, err := session.DecodeValue(raw)
	if err != nil {
		return "", err
	}
	fields, _ := v.(map[string]any)
	messages, ok := fields["messages"].([]any)
	if !ok && fields["messages"] != nil {
		messages = []any{fields["messages"]}
	}
	var text strings.Builder
	for _, m := range messages {
		content := m
		if message, ok := m.(map[string]any); ok {
			content = message["content"]
		}
		writePromptText(&text, content)
	}
	return text.String(), nil
}

// writePromptText writes a content's text: a string, an item, or an item list.
func writePromptText(text *strings.Builder, content any) {
	switch content := content.(type) {
	case string:
		text.WriteString(content)
	case map[string]any:
		if content["type"] == "text" && content["text"] != nil {
			text.WriteString(textOf(content["text"]))
		}
	case []any:
		for _, item := range content {
			if _, nested := item.([]any); !nested {
				writePromptText(text, item)
			}
		}
	}
}
