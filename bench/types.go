package bench

import "ipcbench/bench/result"

// The types of results, from package result.
type (
	Result   = result.Result
	Plan     = result.Plan
	Setup    = result.Setup
	Model    = result.Model
	Cell     = result.Cell
	Skipped  = result.Skipped
	Floor    = result.Floor
	Block    = result.Block
	Process  = result.Process
	Coding   = result.Coding
	Profile  = result.Profile
	Timeline = result.Timeline
	Host     = result.Host
	Layout   = result.Layout
	Layouts  = result.Layouts
	Canary   = result.Canary
)
