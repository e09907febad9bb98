"""SeaStereo, the underwater dataset of the paper, rendered with Blender.

`plan` enumerates the configurations; `scene` describes what stands in one and how the camera moves (`terrain`,
`trajectories`, `objects`, `scenery`, `placement`); `blender_worker` runs inside Blender and renders it; `frame` turns
radiance and depth into the files of one frame; `render` runs many workers; `verify` checks what came out.
"""
