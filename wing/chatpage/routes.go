package chatpage

import (
	"agenthost/pkg/server"
	"agenthost/pkg/session"
)

// Extend returns a server extension; opts may be nil.
func Extend(opts *Options) func(*server.Services) *server.Extension {
	if opts == nil {
		opts = &Options{}
	}
	return func(s *server.Services) *server.Extension {
		h := &handlers{Services: s, opts: *opts, running: map[session.Key][]*runningTurn{}, followers: map[string]int{}}
		return &server.Extension{DescribeProtocol: h.describeProtocol, Routes: h.listRoutes(), Components: components}
	}
}

func (h *handlers) listRoutes() []server.Route {
	const all, one = "/chat/{app}/conversations", "/chat/{app}/conversations/{session}"
	within := server.Limits{ShareTimeout: true}
	return []server.Route{
		{Method: "GET", Pattern: "/chat/{app}", Access: server.AccessPublic, Handler: h.handlePage, Doc: server.Doc{Tag: "chat", ID: "getChatPage", Summary: "Chat page for end users", Answer: "text/html"}},
		{Method: "GET", Pattern: "/chat/{app}/{file}", Access: server.AccessPublic, Handler: h.handleFile, Doc: server.Doc{Tag: "chat", ID: "getChatFile", Summary: "File of the chat page", Answer: "text/plain"}},
		{Method: "GET", Pattern: all, Access: server.AccessHandler, Limits: within, Handler: h.handleList, Doc: server.Doc{Tag: "chat", ID: "listConversations", Summary: "List the caller's conversations, newest first", Params: []string{"chatPage", "chatGuest"}, Answer: "ChatConversationList"}},
		{Method: "POST", Pattern: all, Access: server.AccessHandler, Limits: within, Handler: h.handleCreate, Doc: server.Doc{Tag: "chat", ID: "createConversation", Summary: "Start a conversation", Params: []string{"chatGuest"}, Body: "ChatTitle", Answer: "ChatConversation"}},
		{Method: "GET", Pattern: one, Access: server.AccessHandler, Limits: within, Handler: h.handleConversation, Doc: server.Doc{Tag: "chat", ID: "getConversation", Summary: "Get a conversation's latest messages, or those before one", Params: []string{"chatBefore", "chatGuest"}, Answer: "ChatConversation"}},
		{Method: "PATCH", Pattern: one, Access: server.AccessHandler, Limits: within, Handler: h.handleRename, Doc: server.Doc{Tag: "chat", ID: "renameConversation", Summary: "Rename a conversation", Params: []string{"chatGuest"}, Body: "ChatTitle"}},
		{Method: "DELETE", Pattern: one, Access: server.AccessHandler, Limits: within, Handler: h.handleDelete, Doc: server.Doc{Tag: "chat", ID: "deleteConversation", Summary: "Delete a conversation with its files", Params: []string{"chatGuest"}}},
		{Method: "POST", Pattern: one + "/messages", Access: server.AccessHandler, Handler: h.handleMessage, Doc: server.Doc{Tag: "chat", ID: "sendChatMessage", Summary: "Send a message and stream the answer", Params: []string{"chatGuest"}, Body: "ChatMessageRequest", Answer: "text/event-stream:ChatFrame"}},
		{Method: "POST", Pattern: one + "/answers", Access: server.AccessHandler, Handler: h.handleAnswer, Doc: server.Doc{Tag: "chat", ID: "answerChatQuestion", Summary: "Answer a question and stream what follows", Params: []string{"chatGuest"}, Body: "ChatAnswerRequest", Answer: "text/event-stream:ChatFrame"}},
		{Method: "POST", Pattern: one + "/retry", Access: server.AccessHandler, Handler: h.handleRetry, Doc: server.Doc{Tag: "chat", ID: "retryChatTurn", Summary: "Repeat a turn that failed or was interrupted, and stream the answer", Params: []string{"chatGuest"}, Answer: "text/event-stream:ChatFrame"}},
		{Method: "POST", Pattern: one + "/stop", Access: server.AccessHandler, Handler: h.handleStop, Doc: server.Doc{Tag: "chat", ID: "stopChatTurn", Summary: "Stop the answer in progress", Params: []string{"chatGuest"}, Answer: "ChatStopped"}},
		{Method: "POST", Pattern: one + "/feedback", Access: server.AccessHandler, Limits: server.Limits{Body: maxFeedback, ShareTimeout: true}, Handler: h.handleFeedback, Doc: server.Doc{Tag: "chat", ID: "rateChatMessage", Summary: "Rate an answer", Params: []string{"chatGuest"}, Body: "ChatFeedbackRequest"}},
		{Method: "GET", Pattern: one + "/follow", Access: server.AccessHandler, Handler: h.handleFollow, Doc: server.Doc{Tag: "chat", ID: "followConversation", Summary: "Stream the messages after an event until no turn is running", Params: []string{"chatAfter", "chatGuest"}, Answer: "text/event-stream:ChatFrame"}},
		{Method: "GET", Pattern: one + "/voice", Access: server.AccessHandler, Handler: h.handleVoice, Doc: server.Doc{Tag: "chat", ID: "talkInConversation", Summary: "Talk on a WebSocket, see docs/chat.md; 426 without an upgrade", Answer: "ChatVoiceFrame"}},
		{Method: "GET", Pattern: one + "/files/{event}/{part}", Access: server.AccessHandler, Limits: within, Handler: h.handleMessageFile, Doc: server.Doc{Tag: "chat", ID: "getChatMessageFile", Summary: "Get a file in a message", Params: []string{"chatGuest"}, Answer: "application/octet-stream"}},
		{Method: "GET", Pattern: one + "/artifacts/{version}/{name...}", Access: server.AccessHandler, Limits: within, Handler: h.handleArtifact, Doc: server.Doc{Tag: "chat", ID: "getChatArtifact", Summary: "Get a file that an answer has saved", Params: []string{"chatGuest"}, Answer: "application/octet-stream"}},
	}
}
