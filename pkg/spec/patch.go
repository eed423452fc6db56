package spec

import "slices"

// Patch is a JSON merge patch (RFC 7396) of trees: mappings are merged key by
// key, null takes a key away, and any other value takes the place of what was
// there. Each node keeps the place where it was written. Neither tree is
// changed; what they have in common with the result is shared.
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
