from dataclasses import replace

from llmprism.report.html.grid import layout_grid
from support.reports import EXAMPLES, report_from_capture, tiny_report


def grid_of(name):
    report = report_from_capture(EXAMPLES / name)
    servers = report.topology.server_of()
    return report, layout_grid(report.jobs[0], {i: servers[a] for i, a in enumerate(report.addresses)})


def test_stages_stand_across_and_tensor_parallel_peers_together():
    report, grid = grid_of("pp4dp2tp2")
    assert grid.columns == ("stage 0", "stage 1", "stage 2", "stage 3")
    assert grid.replicas == (0, 0, 1, 1)
    names = [[report.addresses[member] for member in row] for row in grid.rows]
    assert names[:2] == [
        ["10.10.0.1", "10.10.2.1", "10.10.4.1", "10.10.6.1"],
        ["10.11.0.1", "10.11.2.1", "10.11.4.1", "10.11.6.1"],
    ]
    assert sorted(grid.order()) == list(report.jobs[0].job.members)


def test_without_servers_every_pipeline_is_a_replica_of_its_own():
    report, _ = grid_of("pp4dp2tp2")
    assert layout_grid(report.jobs[0], {}).replicas == (0, 1, 2, 3)


def test_without_pipelines_a_row_is_a_group():
    job = tiny_report().jobs[0]
    grid = layout_grid(job, {})
    assert grid.labels == ("dp group 0",)
    assert grid.rows == ((0, 1),)


def test_members_that_nothing_names_are_shown_all_the_same():
    job = tiny_report().jobs[0]
    bare = replace(job, layout=replace(job.layout, groups=()))
    assert layout_grid(bare, {}).rows == ((0, 1),)
    partly = replace(job, layout=replace(job.layout, pipelines=((0,),)))
    assert layout_grid(partly, {}).labels == ("replica 0", "not placed")
