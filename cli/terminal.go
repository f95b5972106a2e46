package cli

import "ipcbench/report/doc"

func (a *app) terminal() doc.TextOptions { return doc.TextOptions{Width: 100, Unicode: true} }
