package spec

import "slices"

// Patch applies a JSON merge patch (RFC 7396): it merges mappings key by key, null
// removes a key, and any other value replaces the previous one. Nodes keep their
// positions. Patch does not change its arguments; the result shares nodes with them.
func Patch(base, patch *Node) *Node {
	if patch.Kind != Mapping {
		return patch
	}
	merged := *patch
	merged.Entries = nil
	if base != nil && base.Kind == Mapping {
		merged = *base
		merged.Entries = slices.Clone(base.Entries)
	}
	for _, e := range patch.Entries {
		at := slices.IndexFunc(merged.Entries, func(old Entry) bool { return old.Key.Value == e.Key.Value })
		switch {
		case e.Value.IsNull() && at >= 0:
			merged.Entries = slices.Delete(merged.Entries, at, at+1)
		case e.Value.IsNull():
		case at >= 0:
			merged.Entries[at] = Entry{e.Key, Patch(merged.Entries[at].Value, e.Value)}
		default:
			merged.Entries = append(merged.Entries, Entry{e.Key, Patch(nil, e.Value)})
		}
	}
	return &merged
}
