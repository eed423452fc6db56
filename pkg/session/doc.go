// Package session defines the data of a conversation.
//
// A [Session] belongs to one user of one app. It has a [History], the
// append-only list of its events, and a [State], the values that instructions
// and tools read. An [Event] is an immutable record of a message, a call or a
// response, together with its [Actions], its effects besides its content. An
// invocation is one run, from a user message to its last event; its events share
// an invocation ID.
//
//	session  app/user/id ─┬─ history   [user] → [agent: call] → [agent: response] → [agent: text]
//	                      └─ state     key, user:key, app:key, temp:key
//
// State keys have a scope by prefix: app: is shared by everyone who uses the
// app, user: by all sessions of a user, temp: lives until the invocation ends
// and is never stored; everything else is the session's own. A null in a state
// delta removes the key.
//
// This package does not depend on databases or HTTP, but defines the JSON form of
// events and sessions that both use: camelCase keys, absent instead of null, float
// seconds, URL-safe base64 (the wire format of adk-python 2.x). The encoder and the
// decoder of that format are in internal/adkjson.
package session
