package session

import "agenthost/pkg/model"

// cacheMetadata writes the one part of an event whose keys are in snake_case
// (adk-python models/cache_metadata.py has no aliases). Without a cache it is a
// fingerprint and a number of contents.
func (w *writer) cacheMetadata(m *model.CacheMetadata) {
	before := w.err
	w.field("cacheMetadata").open('{')
	w.optionalText("cache_name", m.Name)
	if !m.Expires.IsZero() {
		w.timeField("expire_time", m.Expires)
	}
	w.field("fingerprint").text(m.Fingerprint)
	if m.Used != 0 {
		w.field("invocations_used").int(int64(m.Used))
	}
	w.field("contents_count").int(int64(m.Contents))
	if !m.Created.IsZero() {
		w.timeField("created_at", m.Created)
	}
	w.close('}')
	w.inKey(before, "cacheMetadata")
}

// cacheField finds a field by its key in camelCase, in which any key is looked
// up. Metadata that says only half of a cache is read as it is: it is not
// active, and the next answer replaces it.
func cacheField(m *model.CacheMetadata, name []byte) any {
	switch string(name) {
	case "cacheName":
		return &m.Name
	case "expireTime":
		return &m.Expires
	case "fingerprint":
		return &m.Fingerprint
	case "invocationsUsed":
		return &m.Used
	case "contentsCount":
		return &m.Contents
	case "createdAt":
		return &m.Created
	default:
		return nil
	}
}
