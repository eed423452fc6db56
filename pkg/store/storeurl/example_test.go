package storeurl_test

import (
	"context"
	"errors"
	"fmt"

	"agenthost/pkg/model"
	"agenthost/pkg/session"
	"agenthost/pkg/store/storeurl"
)

// Two readers with one session: the first to append wins, the other reads again.
func Example() {
	ctx := context.Background()
	s, err := storeurl.Open(ctx, "memory:", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer s.Close()

	key := session.Key{App: "shop", User: "ana", ID: "s1"}
	mine, err := s.Sessions.Create(ctx, key, map[string]any{"user:name": "Ana"})
	if err != nil {
		fmt.Println(err)
		return
	}
	yours, err := s.Sessions.Get(ctx, key, nil)
	if err != nil {
		fmt.Println(err)
		return
	}

	ev := &session.Event{Author: session.UserAuthor, Response: model.Response{Content: model.UserText("hello")}}
	ev.Actions.SetState("greeted", true)
	fmt.Println(s.Sessions.Append(ctx, mine, ev), mine.Version, mine.State.All())

	late := &session.Event{Author: session.UserAuthor, Response: model.Response{Content: model.UserText("hi")}}
	err = s.Sessions.Append(ctx, yours, late)
	fmt.Println(errors.Is(err, session.ErrStale), err)
	// Output:
	// <nil> 1 map[greeted:true user:name:Ana]
	// true session s1 changed since it was read: it was at version 0, now it is at 1
}
