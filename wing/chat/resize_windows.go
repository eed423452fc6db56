package chat

import "os"

// notifyResize returns a channel that receives nothing: the size is read for each frame.
func notifyResize() (resized <-chan os.Signal, end func()) { return nil, func() {} }

// suspendProcess does nothing: Windows has no job control.
func suspendProcess() {}
