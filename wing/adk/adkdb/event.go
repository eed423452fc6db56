package adkdb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// eventFromData returns the event from an adk-python schema that stores it as one JSON
// column.
func eventFromData(values []any) ([]byte, error) {
	text := bytesOf(values[1])
	if len(text) == 0 {
		return nil, errors.New("event_data is empty")
	}
	return text, nil
}

// A columnType is how an event column is encoded.
type columnType int

const (
	typeText columnType = iota
	typeJSON
	typeFlag
)

// A field is a column and its name in an event's JSON form.
type field struct {
	column, name string
	columnType   columnType
}

// goColumns returns adk-go's event columns, without keys and timestamp.
func goColumns() []field {
	return []field{
		{"author", "author", typeText},
		{"branch", "branch", typeText},
		{"long_running_tool_ids_json", "longRunningToolIds", typeJSON},
		{"content", "content", typeJSON},
		{"grounding_metadata", "groundingMetadata", typeJSON},
		{"custom_metadata", "customMetadata", typeJSON},
		{"usage_metadata", "usageMetadata", typeJSON},
		{"citation_metadata", "citationMetadata", typeJSON},
		{"partial", "partial", typeFlag},
		{"turn_complete", "turnComplete", typeFlag},
		{"error_code", "errorCode", typeText},
		{"error_message", "errorMessage", typeText},
		{"interrupted", "interrupted", typeFlag},
		{"actions", "actions", typeJSON},
		{"routes_json", "routes", typeJSON},
		{"output_json", "output", typeJSON},
		{"node_info_json", "nodeInfo", typeJSON},
		{"requested_input_json", "requestedInput", typeJSON},
		{"isolation_scope", "isolationScope", typeText},
	}
}

func columnNames(fields []field) []string {
	var all []string
	for _, f := range fields {
		all = append(all, f.column)
	}
	return all
}

// eventFromColumns returns a function that builds an event's JSON from columns.
func eventFromColumns(fields []field) func([]any) ([]byte, error) {
	return func(values []any) ([]byte, error) {
		event := map[string]json.RawMessage{}
		for i, f := range fields {
			text, err := f.encodeValue(values[i])
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

// encodeValue returns a column's value as JSON, or nil if it has none.
func (f field) encodeValue(v any) (json.RawMessage, error) {
	text := bytesOf(v)
	switch f.columnType {
	case typeFlag:
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
	case typeText:
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
			return nil, errors.New("invalid JSON")
		}
		return text, nil
	}
}
