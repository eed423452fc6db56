package adkdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// dataEvent is the event of an adk-python that keeps it whole.
func dataEvent(values []any) ([]byte, error) {
	text := bytesOf(values[1])
	if len(text) == 0 {
		return nil, errors.New("it has no event_data")
	}
	return text, nil
}

// A form is how a column holds a part of an event.
type form int

const (
	formText form = iota
	formJSON
	formFlag
)

// A field is a column and its name in the JSON form of an event.
type field struct {
	column, name string
	form         form
}

// goFields are the columns of adk-go beside the keys and the time.
func goFields() []field {
	return []field{
		{"author", "author", formText},
		{"branch", "branch", formText},
		{"long_running_tool_ids_json", "longRunningToolIds", formJSON},
		{"content", "content", formJSON},
		{"grounding_metadata", "groundingMetadata", formJSON},
		{"custom_metadata", "customMetadata", formJSON},
		{"usage_metadata", "usageMetadata", formJSON},
		{"citation_metadata", "citationMetadata", formJSON},
		{"partial", "partial", formFlag},
		{"turn_complete", "turnComplete", formFlag},
		{"error_code", "errorCode", formText},
		{"error_message", "errorMessage", formText},
		{"interrupted", "interrupted", formFlag},
		{"actions", "actions", formJSON},
		{"routes_json", "routes", formJSON},
		{"output_json", "output", formJSON},
		{"node_info_json", "nodeInfo", formJSON},
		{"requested_input_json", "requestedInput", formJSON},
		{"isolation_scope", "isolationScope", formText},
	}
}

func columnNames(fields []field) []string {
	var all []string
	for _, f := range fields {
		all = append(all, f.column)
	}
	return all
}

// columnEvent makes an event of columns.
func columnEvent(fields []field) func([]any) ([]byte, error) {
	return func(values []any) ([]byte, error) {
		event := map[string]json.RawMessage{}
		for i, f := range fields {
			text, err := f.json(values[i])
			if err != nil {
				return nil, fmt.Errorf("column %s: %w", f.column, err)
			}
			if text != nil {
				event[f.name] = text
			}
		}
		return json.Marshal(event)
	}
}

// json is a column's value in JSON; nil says that there is none.
func (f field) json(v any) (json.RawMessage, error) {
	text := bytesOf(v)
	switch f.form {
	case formFlag:
		switch v := v.(type) {
		case bool:
			return json.Marshal(v)
		case int64:
			return json.Marshal(v != 0)
		case float64:
			return json.Marshal(v != 0)
		case []byte:
			return json.Marshal(string(v) != "0")
		}
		return nil, nil
	case formText:
		if len(text) == 0 {
			return nil, nil
		}
		return json.Marshal(string(text))
	default:
		text = bytes.TrimSpace(text)
		if len(text) == 0 || string(text) == "null" {
			return nil, nil
		}
		if !json.Valid(text) {
			return nil, errors.New("it is no JSON")
		}
		return text, nil
	}
}
