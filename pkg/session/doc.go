// Package session is the domain: what a conversation is made of.
//
// A [Session] belongs to one user of one app. It has a [History], the
// append-only list of its events, and a [State], the values that instructions
// and tools read. An [Event] is a stored fact: something said, called or
// answered, together with its [Actions]: what it does beside its content. An
// invocation is one run, from a user message to the last event that follows
// from it; its events share an invocation id.
//
//	session  app/user/id ─┬─ history   [user] → [agent: call] → [agent: response] → [agent: text]
//	                      └─ state     key, user:key, app:key, temp:key
//
// State keys have a scope by prefix: app: is shared by everyone who uses the
// app, user: by all sessions of a user, temp: lives until the invocation ends
// and is never stored; everything else is the session's own. A null in a state
// delta removes the key.
//
// This package knows no database and no HTTP, but it owns the JSON form of
// events and sessions, which both use: camelCase keys, absent instead of null,
// float seconds, URL-safe base64 (the ADK wire, docs of adk-python 2.x).
package session
